// Prints who is calling. Needs Go 1.19. docs/clients.md lists the exit codes.
//
//	go build -o callerid callerid.go
//	CALLERID_URL=http://127.0.0.1:8000 CALLERID_TOKEN=... ./callerid 493023125555
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	attempts     = 3
	attemptLimit = 2 * time.Second
	totalLimit   = 4 * time.Second
	pause        = 200 * time.Millisecond
)

// client follows no redirect, which would send the token elsewhere.
var client = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// response is a successful search's body, or an error's. A field that a source does not know is absent.
type response struct {
	Data struct {
		SourceA struct{ Name, Location string } `json:"source_a"`
		SourceB struct {
			Name string
			Spam *bool
		} `json:"source_b"`
	}
	Detail string
}

// search returns the exit code, and what to print.
func search(url, token, number string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), totalLimit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	body, err := json.Marshal(map[string]string{"api_key": token, "query": number})
	if err != nil {
		return 1, err.Error()
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return 1, err.Error()
	}
	// The same key with each attempt: none is charged twice.
	key := fmt.Sprintf("%x", random)
	var code int
	var text string
	for attempt := 1; attempt <= attempts; attempt++ {
		wait := pause
		status, retryAfter, answer, err := post(ctx, url, key, body)
		switch {
		case err != nil:
			code, text = 8, "No response"
		case status == http.StatusOK:
			return 0, describe(answer)
		default:
			code, text = exitCode(status), fmt.Sprintf("%d %s", status, answer.Detail)
			if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
				wait = retryAfter
			} else if status < 500 {
				return code, text
			}
		}
		if attempt == attempts || time.Now().Add(wait).After(deadline) {
			break
		}
		time.Sleep(wait)
	}
	return code, text
}

func post(ctx context.Context, url, key string, body []byte) (int, time.Duration, response, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	var answer response
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(url, "/")+"/callerid/search", bytes.NewReader(body))
	if err != nil {
		return 0, 0, answer, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	reply, err := client.Do(request)
	if err != nil {
		return 0, 0, answer, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, 0, answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil && reply.StatusCode == http.StatusOK {
		return 0, 0, answer, err
	}
	seconds, err := strconv.ParseUint(reply.Header.Get("Retry-After"), 10, 30)
	if err != nil {
		seconds = 1
	}
	return reply.StatusCode, time.Duration(seconds) * time.Second, answer, nil
}

func exitCode(status int) int {
	switch {
	case status == http.StatusUnauthorized:
		return 3
	case status == http.StatusForbidden:
		return 4
	case status == http.StatusTooManyRequests:
		return 5
	case status == http.StatusServiceUnavailable:
		return 7
	case status >= 500:
		return 6
	}
	return 1
}

func describe(answer response) string {
	a, b, spam := answer.Data.SourceA, answer.Data.SourceB, "unknown"
	if b.Spam != nil && *b.Spam {
		spam = "yes"
	} else if b.Spam != nil {
		spam = "no"
	}
	return fmt.Sprintf("Name:  %s\nPlace: %s\nSpam:  %s", known(a.Name, b.Name), known(a.Location), spam)
}

func known(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return "unknown"
}

func main() {
	url, token := os.Getenv("CALLERID_URL"), os.Getenv("CALLERID_TOKEN")
	if url == "" || token == "" || len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "Usage: CALLERID_URL=... CALLERID_TOKEN=... %s NUMBER\n", os.Args[0])
		os.Exit(2)
	}
	code, text := search(url, token, os.Args[1])
	if code == 0 {
		fmt.Println(text)
	} else {
		fmt.Fprintln(os.Stderr, text)
	}
	os.Exit(code)
}
