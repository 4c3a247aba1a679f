"""Reader of the tables that address books export, one row per person or organization: Outlook and Outlook.com,
Thunderbird, Yahoo, and programs that imitate them.

Nobody publishes lists of their columns, and each language has its own names. So a column's words say what it has:
`Telefon geschäftlich 2` is a telephone, at work.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from contrib.file_formats.google_csv import GoogleReader
from core.text import clean_text
from phonebook.imports.readers import base, csv_rows


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(","))


# --- Whole names, as words with single spaces ------------------------------------------------------------------------

_PREFIX = ("title", "prefix", "name prefix", "anrede", "titre", "tratamiento", "título", "titolo", "titel", "tytuł")
_FIRST = _names("""
first name, first, firstname, given name, givenname, forename, vorname, prénom, nombre, nome, voornaam, primeiro nome,
imię, förnamn, fornavn, etunimi, jméno, křestní jméno, utónév, имя, 名
""")
_MIDDLE = _names("""
middle name, middle, middlename, additional name, weitere vornamen, deuxième prénom, drugie imię, segundo nombre,
secondo nome, tweede voornaam, middelste naam, segundo nome, nome do meio, mellannamn, mellemnavn, mellomnavn,
отчество
""")
_LAST = _names("""
last name, last, lastname, family name, familyname, surname, nachname, familienname, nom, nom de famille, apellido,
apellidos, cognome, achternaam, sobrenome, último nome, nazwisko, efternamn, efternavn, etternavn, sukunimi, příjmení,
vezetéknév, фамилия, 姓
""")
_SUFFIX = ("suffix", "name suffix", "suffixe", "sufijo", "suffisso", "achtervoegsel", "sufixo", "sufiks")
_WHOLE = _names("""
display name, displayname, full name, fullname, name, contact name, caller name, contact, anzeigename,
vollständiger name, kontakt, nom à afficher, nom complet, nombre en pantalla, nombre completo, nome visualizzato,
nome completo, weergavenaam, schermnaam, mostrar nome, nome de exibição, visningsnamn, visningsnavn,
nazwa wyświetlana, imię i nazwisko, file as
""")
_COMPANY = _names("""
company, company name, organization, organisation, organization name, firma, unternehmen, société, entreprise,
empresa, compañía, organización, società, azienda, organizzazione, bedrijf, organisatie, organização, företag,
virksomhed, společnost, cég, yritys, организация, 会社名
""")
_NICKNAME = ("nickname", "nick name", "spitzname", "surnom", "apodo", "soprannome", "bijnaam", "apelido", "przydomek")
#: Of Yahoo and Apple, beside columns that name a telephone.
_PHONES_ALONE = ("home", "work", "main")

# --- Words -----------------------------------------------------------------------------------------------------------

_MOBILE = _words(
    "mobile mobil mobiltelefon mobilnummer mobiel móvil movil cell cellphone cellulare celular handy handynummer "
    "portable gsm natel telemóvel komórkowy matkapuhelin"
)
_PHONE = _MOBILE | _words(
    "tel tél fone rufnummer festnetz fax faxnummer telefax télécopie faks pager callback rückmeldung isdn phones"
)
#: Words with one of these are telephones too: Autotelefon, Telefonnummer.
_PHONE_PARTS = _words("phone telefon téléphone teléfono telefoon telefone puhelin телефон 電話 电话")
#: Another person's number, and what is no number of a telephone.
_NOT_PHONE = _words(
    "assistant assistants assistent assistentin assistente asistente ayudante asystenta type typ tipo label extension "
    "ext code country vorwahl prefix notes mail email provider carrier telex model"
)
_AT_WORK = _words(
    "business work office geschäftlich dienstlich arbeit büro bureau professionnel trabajo oficina lavoro ufficio "
    "zakelijk werk comercial trabalho służbowy biuro arbete arbejde arbeid arbejdstelefon zaměstnání"
)
_OF_COMPANY = _words("company firma société organización società empresa bedrijf organização företag")
_AT_HOME = _words(
    "home privat private domicile particular domicilio casa residenza privé thuis dom hem hjem personal residencia "
    "residencial residência domicílio residenziale woning"
)
_CITY = _words("city town locality ort stadt wohnort ville ciudad población città plaats woonplaats cidade miasto")
_STATE = _words("state province bundesland kanton region dép département région provincia estado provincie województwo")
_COUNTRY = _words("country countryregion land pays país paese nazione kraj")
_NO_PLACE = _words("postal plz zip postleitzahl birth code")


class _Column:
    """What a column has, by its name: in lower case, and with single spaces between its words."""

    def __init__(self, index: int, column: str) -> None:
        words = "".join(character if character.isalpha() else " " for character in column).split()
        self.index, self.name = index, " ".join(words)
        self._words = set(words)
        is_phone = not _PHONE.isdisjoint(words) or any(part in word for word in words for part in _PHONE_PARTS)
        self.is_phone = is_phone and _NOT_PHONE.isdisjoint(words) and not self.name.startswith("phonetic")
        self.is_mobile = self.is_phone and not _MOBILE.isdisjoint(words)
        self.is_of_company = not _OF_COMPANY.isdisjoint(words)
        at_work = self.is_of_company or not _AT_WORK.isdisjoint(words)
        #: 0: at work. 1: at home. 2: neither.
        self.place = 0 if at_work else 1 if not _AT_HOME.isdisjoint(words) else 2

    def has(self, words: Iterable[str]) -> bool:
        return not self._words.isdisjoint(words) and self._words.isdisjoint(_NO_PLACE) and not self.is_phone


class OutlookReader(csv_rows.ContactReader):
    error = "the first line names no columns of an address book, such as First Name and Mobile Phone"

    def __init__(self, header: csv_rows.Header, **options: Any) -> None:
        super().__init__(header, **options)
        columns = [_Column(index, column) for index, column in enumerate(header.columns)]

        def index(names: Iterable[str]) -> int:
            return next((column.index for column in columns if column.name in names), len(columns))

        whole, first, last = map(index, (_WHOLE, _FIRST, _LAST))
        if max(whole, first) < len(columns) == last:  # Name and Vorname
            whole, last = last, whole
        if "姓" in header.columns:  # the family's name comes first
            first, last = last, first
        # Without a suffix, a title is more often a job's.
        has_suffix = any(column.name in _SUFFIX for column in columns)
        prefix = index(_PREFIX) if has_suffix else len(columns)
        self._whole, self._parts = whole, (prefix, first, index(_MIDDLE), last, index(_SUFFIX))
        self._company, self._nickname = index(_COMPANY), index(_NICKNAME)
        self._phones = sorted(_phones(columns), key=lambda column: not column.is_mobile)
        # At work, at home, elsewhere: city, state and country.
        self._places = [
            tuple(_index(columns, place, words) for words in (_CITY, _STATE, _COUNTRY)) for place in range(3)
        ]
        self._location = next((column.index for column in columns if column.name == "location"), len(columns))

    @classmethod
    def matches(cls, header: csv_rows.Header) -> bool:
        columns = [_Column(index, column) for index, column in enumerate(header.columns)]
        names = {*_FIRST, *_LAST, *_WHOLE, *_COMPANY}
        return bool(_phones(columns)) and any(column.name in names for column in columns)

    @classmethod
    def recognizes(cls, begin: Sequence[str]) -> int:
        found = csv_rows.find_header(enumerate(begin, 1), cls.matches)
        # `number` is a column of the service's own format.
        return found[0] if found and not (found[1].has("number") or GoogleReader.matches(found[1])) else 0

    def contact(self, cells: list[str]) -> tuple[str, list[tuple[str, str, str]]]:
        company = clean_text(cells[self._company])
        name = (
            clean_text(cells[self._whole])
            or clean_text(" ".join(cells[part] for part in self._parts))
            or company
            or clean_text(cells[self._nickname])
        )
        return name, [
            (cells[phone.index], (company or name) if phone.is_of_company else name, self._place(cells, phone))
            for phone in self._phones
            if cells[phone.index].strip()
        ]

    def _place(self, cells: list[str], phone: _Column) -> str:
        for place in (0, 1, 2) if phone.place == 0 else (1, 0, 2):
            if found := base.location(*(cells[index] for index in self._places[place])):
                return found
        return clean_text(cells[self._location])


def _phones(columns: list[_Column]) -> list[_Column]:
    phones = [column for column in columns if column.is_phone]
    return phones and [column for column in columns if column.is_phone or column.name in _PHONES_ALONE]


def _index(columns: list[_Column], place: int, words: Iterable[str]) -> int:
    """The index of the first column at this place with one of these words; `Land/Region` is a country."""
    is_country = words is _COUNTRY
    return next(
        (
            column.index
            for column in columns
            if column.place == place and column.has(words) and (is_country or not column.has(_COUNTRY))
        ),
        len(columns),
    )
