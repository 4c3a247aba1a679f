"""Request ids that clients send, and whether they are kept: one table for the service, nginx and the log."""

KEPT = [
    "call-42_A.b",
    "a",
    "123456",
    "INV-2026-17",
    "123456a123456",
    "123456-123456.123456_123456",
    "123e4567-e89b-12d3-a456-426614174a00".replace("426614174", "42661a"),
    "0190a0b1-1234-7abc-8def-1234567890ab".replace("1234567890", "12345a"),
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "4bf92f3577b34da6a3ce929d0e0e4736",
    "x" * 64,
    "eyJ",
    "monkeyJack",
]
#: Each holds 7 or more digits in a row, or a token.
SECRET = [
    "1234567",
    "493023125042",
    "123456789012345",
    "1234567890123456",
    "a493023125042",
    "493023125042a",
    "abc493023125042def",
    "call-12025550142",
    "call_12025550142",
    "12025550142.pdf",
    "12025550142.5",
    "id12025550142.5",
    "x1234567",
    "123e4567-e89b-12d3-a456-426614174000",
    "12345678-90ab-4def-8abc-1234567890ab",
    "call-12345678-1234-4123-8123-123456789012",
    "1" * 64,
    "eyJhbGciOiJIUzI1NiJ9.e30",
    "a-eyJhbGciOiJIUzI1NiJ9.",
]
MALFORMED = ["x" * 65, "a b", "a;b", "a,b", "a+b", "a/b"]
