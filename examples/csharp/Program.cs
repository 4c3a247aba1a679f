// Prints who is calling. Needs .NET 8. docs/clients.md lists the exit codes.
//   CALLERID_URL=http://127.0.0.1:8000 CALLERID_TOKEN=... dotnet run 493023125555
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Net.Http;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

public static class Program
{
    private const int Attempts = 3;
    private static readonly TimeSpan AttemptLimit = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan TotalLimit = TimeSpan.FromSeconds(4);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(200);

    public static async Task<int> Main(string[] args)
    {
        var url = Environment.GetEnvironmentVariable("CALLERID_URL");
        var token = Environment.GetEnvironmentVariable("CALLERID_TOKEN");
        if (string.IsNullOrEmpty(url) || string.IsNullOrEmpty(token) || args.Length != 1)
        {
            Console.Error.WriteLine("Usage: CALLERID_URL=... CALLERID_TOKEN=... dotnet run NUMBER");
            return 2;
        }
        var (code, text) = await SearchAsync(url, token, args[0]);
        (code == 0 ? Console.Out : Console.Error).WriteLine(text);
        return code;
    }

    /// <summary>Returns the exit code, and what to print.</summary>
    private static async Task<(int Code, string Text)> SearchAsync(string url, string token, string number)
    {
        var body = JsonSerializer.Serialize(new Dictionary<string, string> { ["api_key"] = token, ["query"] = number });
        // The same key with each attempt: none is charged twice.
        var key = Guid.NewGuid().ToString();
        // A redirect would send the token elsewhere.
        using (var handler = new HttpClientHandler { AllowAutoRedirect = false })
        using (var client = new HttpClient(handler) { Timeout = AttemptLimit })
        using (var total = new CancellationTokenSource(TotalLimit))
        {
            var clock = Stopwatch.StartNew();
            for (var attempt = 1; ; attempt++)
            {
                var outcome = (Code: 8, Text: "No response");
                var wait = Pause;
                try
                {
                    using (var response = await PostAsync(client, url, key, body, total.Token))
                    {
                        var status = (int)response.StatusCode;
                        var answer = await response.Content.ReadAsStringAsync();
                        if (status == 200)
                        {
                            return (0, Describe(answer));
                        }
                        outcome = (ExitCode(status), $"{status} {Detail(answer) ?? response.ReasonPhrase}");
                        if (status == 429 || status == 503)
                        {
                            wait = response.Headers.RetryAfter?.Delta ?? TimeSpan.FromSeconds(1);
                        }
                        else if (status < 500)
                        {
                            return outcome;
                        }
                    }
                }
                catch (Exception error)
                    when (error is HttpRequestException || error is OperationCanceledException || error is JsonException)
                {
                    // No connection, or it broke; or one of the two limits has passed; or a 200 that is not JSON.
                }
                if (attempt == Attempts || clock.Elapsed + wait >= TotalLimit)
                {
                    return outcome;
                }
                await Task.Delay(wait);
            }
        }
    }

    private static async Task<HttpResponseMessage> PostAsync(
        HttpClient client, string url, string key, string body, CancellationToken cancellation)
    {
        using (var request = new HttpRequestMessage(HttpMethod.Post, url.TrimEnd('/') + "/callerid/search"))
        {
            request.Content = new StringContent(body, Encoding.UTF8, "application/json");
            request.Headers.Add("Idempotency-Key", key);
            return await client.SendAsync(request, cancellation);
        }
    }

    private static int ExitCode(int status)
    {
        switch (status)
        {
            case 401: return 3;
            case 403: return 4;
            case 429: return 5;
            case 503: return 7;
            default: return status >= 500 ? 6 : 1;
        }
    }

    private static string Describe(string answer)
    {
        using (var document = JsonDocument.Parse(answer))
        {
            var data = document.RootElement.GetProperty("data");
            JsonElement a = data.GetProperty("source_a"), b = data.GetProperty("source_b");
            var name = Text(a, "name") ?? Text(b, "name") ?? "unknown";
            var spam = b.TryGetProperty("spam", out var value) ? (value.GetBoolean() ? "yes" : "no") : "unknown";
            return $"Name:  {name}\nPlace: {Text(a, "location") ?? "unknown"}\nSpam:  {spam}";
        }
    }

    private static string Text(JsonElement source, string field) =>
        source.TryGetProperty(field, out var value) ? value.GetString() : null;

    private static string Detail(string answer)
    {
        try
        {
            using (var document = JsonDocument.Parse(answer))
            {
                return Text(document.RootElement, "detail");
            }
        }
        catch (JsonException)
        {
            return null; // a proxy's error page
        }
    }
}
