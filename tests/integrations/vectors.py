"""What every integration must do alike: which callers are searched, and which names are displayed how."""

GERMANY = {"COUNTRY_CODE": "49", "TRUNK_PREFIX": "0"}
NORTH_AMERICA = {"COUNTRY_CODE": "1", "NATIONAL_DIGITS": "10", "INTERNATIONAL_PREFIX": "011"}

#: Settings, the number as it arrives, and what is searched for; an empty string if nothing is.
NUMBERS: list[tuple[dict[str, str], str, str]] = [
    (GERMANY, "+493023125555", "493023125555"),
    (GERMANY, "00493023125555", "493023125555"),
    (GERMANY, "03023125555", "493023125555"),
    (GERMANY, "493023125555", "493023125555"),
    (GERMANY, "0012125550123", "12125550123"),
    (GERMANY, "+49-30-23125.555", "493023125555"),
    (GERMANY, "101", ""),
    (GERMANY, "+49", ""),
    (GERMANY, "+1234567890123456", ""),
    (GERMANY, "+0493023125555", ""),
    (GERMANY, "anonymous", ""),
    (GERMANY, "+49alice5555", ""),
    (NORTH_AMERICA, "2125550123", "12125550123"),
    (NORTH_AMERICA, "12125550123", "12125550123"),
    (NORTH_AMERICA, "+12125550123", "12125550123"),
    (NORTH_AMERICA, "011493023125555", "493023125555"),
    ({}, "+12125550123", "12125550123"),
    ({}, "03023125555", ""),
]

#: A name from the service, and how it is displayed.
NAMES: list[tuple[str, str]] = [
    ("Example Bakery", "Example Bakery"),
    ("O'Brien & Sons, Ltd.", "O'Brien & Sons, Ltd."),
    ("Müller Öfen 山田", "Müller Öfen 山田"),
    ('The "Bank"', "The Bank"),
    ("back\\slash", "back slash"),
    ('x\\" <sip:bank@example.org>;tag=1', "x sip:bank@example.org tag=1"),
    ("x\r\nX-Injected: yes", "x X-Injected: yes"),
    ("x\nX-Injected: yes", "x X-Injected: yes"),
    ("x\rX-Injected: yes", "x X-Injected: yes"),
    ("x\r\n\r\nv=0", "x v=0"),
    ("tab\there\x01\x7f", "tab here"),
    ("\u202eknaB\u2066\u200b\ufeff x\u0085y\u2028z", "knaB x y z"),
    ("  \t ", ""),
    ("$var(number) $env(CALLERID_TOKEN) %s ${EXTEN}", "$var(number) $env(CALLERID_TOKEN) %s ${EXTEN}"),
    ("a" * 64, "a" * 64),
    ("a" * 65, "a" * 64),
    ("ö" * 300, "ö" * 32),
    ("a" + "山" * 50, "a" + "山" * 21),
    ("𝔄" * 100, "𝔄" * 16),
    ("x" * 6000, "x" * 64),
]

#: A URI of the caller, the settings, and the number to search ("": none).
LOCAL = [
    ("tel:2125550123;phone-context=+1", NORTH_AMERICA, "12125550123"),
    ("sip:2125550123;phone-context=+1@198.51.100.5;user=phone", NORTH_AMERICA, "12125550123"),
    ("tel:03023125555;phone-context=ims.example.org", GERMANY, "493023125555"),
    ("tel:03023125555;Phone-Context=+49", GERMANY, "493023125555"),
    ("tel:2125550123;phone-context=+1", GERMANY, ""),
    ("sip:2125550123;phone-context=+1@198.51.100.5;user=phone", GERMANY, ""),
    ("tel:2125550123;phone-context=+1", {}, ""),
    ("tel:23125555;phone-context=+49-30", GERMANY, ""),
    ("tel:3023125555;phone-context=+49", GERMANY, ""),
]
