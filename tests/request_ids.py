"""Request ids that clients send, and whether they are kept: one table for the service, nginx and the log."""

KEPT = [
    "call-42_A.b",
    "a",
    "123456",
    "INV-2026-17",
    "123456a123456",
    "123456-123456.123456_123456",
    # UUIDs are kept, whichever digits they have: of versions 1, 4 and 7, of Envoy (9), in capitals.
    "550e8400-e29b-41d4-a716-446655440000",
    "123e4567-e89b-12d3-a456-426614174000",
    "0190a0b1-1234-7abc-8def-1234567890ab",
    "12345678-90ab-4def-8abc-1234567890ab",
    "968ea8f8-3806-95c9-8228-812345678901",
    "CEAE078D-2E96-4FEF-ABDA-412345678901",
    # No UUIDs, but without 7 digits in a row.
    "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
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
    # Phone numbers in the form of a UUID: with no version, no variant, another length, padding of digits alone.
    "00000000-0000-0000-0000-493023125555",
    "ffffffff-ffff-ffff-ffff-493023125555",
    "49302312-5555-4000-c000-00000000000a",
    "00000000-0000-4000-8000-493023125555",
    "12345678-1234-4123-8123-123456789012",
    "550e8400-e29b-41d4-a716-4466554400000",
    "x550e8400-e29b-41d4-a716-446655440000",
    "550e8400-e29b-41d4-a716-446655440000.",
    "550e8400e29b41d4a716446655440000",
    "call-12345678-1234-4123-8123-123456789012",
    "1" * 64,
    "eyJhbGciOiJIUzI1NiJ9.e30",
    "a-eyJhbGciOiJIUzI1NiJ9.",
]
MALFORMED = ["x" * 65, "a b", "a;b", "a,b", "a+b", "a/b"]
