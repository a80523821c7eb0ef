"""Lists what behaviour cases are made of: templates, names of many languages, greetings and what they may become."""

from collections.abc import Mapping
from types import MappingProxyType


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES = _words(
    """
    Aarav Abena Aleksander Amara Anneliese Aoife Babajide Beatrice Bogdan Cheng Cormac Daiki Devi Dolores Ekaterina
    Eleni Enrique Esteban Fabienne Femi Gerhard Guadalupe Haruto Heidi Ignacio Imani Ivana Jacques Jelena Kaito Katrin
    Kwabena Ludmila Malik Marisol Mbali Naoko Nikhil Odile Olumide Parisa Quentin Radek Rosalind Saoirse Siddharth
    Sinead Tadeusz Thandiwe Tuan Ulises Vaclav Wanjiru Xiulan Yaw Zeynep Zuzana Brigitte Callum Dagmar
    """
)
NAME_TEMPLATES = (
    "My name is {}.",
    "{} is my neighbor.",
    "Have you seen {} today?",
    "I am going to the market with {}.",
    "{} does not like coffee.",
    "Please give this book to {}.",
    "Good morning, {}!",
    "{} lives near the station.",
)
FIGURE_TEMPLATES = (
    "There are {} chairs in the room.",
    "We need {} bottles of water.",
    "He read {} pages yesterday.",
    "The village has {} inhabitants.",
    "My ticket has the number {}.",
    "She sold {} books last month.",
)
PRICES = (
    "The soup costs {} euros.",
    "I paid {} dollars for this jacket.",
    "The price is {} euros.",
    "A ticket costs {} dollars.",
)
TIMES = (
    "The bus leaves at {}.",
    "Our meeting begins at {}.",
    "The shop closes at {}.",
    "I woke up at {} this morning.",
)
YEARS = (
    "This house was built in {}.",
    "She was born in {}.",
    "The war ended in {}.",
    "In {} he moved to Italy.",
)
PLAIN = (
    "I don't know where the station is.",
    "She's reading a book in the garden.",
    "We can't find our keys.",
    "The children are playing in the park.",
    "Can you help me with my suitcase?",
    "It's raining again.",
    "My brother works in a hospital.",
    "I'd like a cup of tea.",
    "The museum is closed today.",
    "They didn't come to the party.",
    "Where can I buy a newspaper?",
    "He's waiting for you outside.",
    "This bread is very good.",
    "I've lost my passport.",
    "The restaurant opens in the evening.",
    "You shouldn't drive so fast.",
    "My sister wants to learn French.",
    "Let's go to the beach.",
    "The doctor said that I need to rest.",
    "What's your favorite color?",
)
NEGATIONS = (
    "I do not like this soup.",
    "She never drinks coffee.",
    "Nobody came to the party.",
    "We don't have any money.",
    "He cannot swim.",
    "I have nothing to say.",
    "They did not understand the question.",
    "Don't open the window.",
    "There is no milk in the fridge.",
    "I am not tired.",
    "It isn't cold today.",
    "You must not smoke here.",
    "My father doesn't speak English.",
    "I have never been to Paris.",
    "She wasn't at home yesterday.",
    "We won't be late.",
    "That is not my car.",
    "I didn't buy the book.",
    "He has no brothers.",
    "Nothing happened.",
)
# What is tried against the words of an answer, each with a space behind it; without one, endings are free.
NEGATIVE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "es": ("no ", "nunca ", "nadie ", "nada ", "ni ", "tampoco ", "sin ", "jamás ", "ning"),
        "fr": ("ne ", "n ", "pas ", "jamais ", "rien ", "personne ", "aucun", "sans "),
        "de": ("nicht ", "kein", "nie ", "niemals ", "niemand", "nichts ", "ohne "),
    }
)
# A figure of one digit may be written in words.
NUMBERS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        language: {str(number): (word,) for number, word in enumerate(_words(words), start=2)}
        for language, words in (
            ("es", "dos tres cuatro cinco seis siete ocho nueve"),
            ("fr", "deux trois quatre cinq six sept huit neuf"),
            ("de", "zwei drei vier fünf sechs sieben acht neun"),
        )
    }
)
GREETINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "es": {
            "Hello!": ("hola", "buenos días"),
            "Hi!": ("hola",),
            "Good morning!": ("buenos días", "buen día"),
            "Good evening!": ("buenas tardes", "buenas noches"),
            "Good night!": ("buenas noches",),
            "Goodbye!": ("adiós", "hasta luego", "hasta la vista", "chao"),
            "See you tomorrow!": ("hasta mañana", "nos vemos mañana", "te veo mañana"),
            "Thank you!": ("gracias", "muchas gracias"),
            "Thanks!": ("gracias",),
            "Please.": ("por favor",),
            "Excuse me.": ("perdón", "disculpe", "perdone", "disculpa", "perdona", "con permiso", "discúlpeme"),
            "I'm sorry.": ("lo siento", "perdón"),
            "Welcome!": ("bienvenido", "bienvenidos", "bienvenida"),
            "How are you?": ("cómo estás", "cómo está", "cómo están", "qué tal", "cómo te va", "cómo está usted"),
            "Yes.": ("sí",),
            "No.": ("no",),
            "Cheers!": ("salud", "saludos"),
            "Congratulations!": ("felicidades", "felicitaciones", "enhorabuena"),
            "Happy birthday!": ("feliz cumpleaños",),
            "Help!": ("ayuda", "socorro", "auxilio"),
        },
        "fr": {
            "Hello!": ("bonjour", "salut"),
            "Hi!": ("salut", "bonjour"),
            "Good morning!": ("bonjour",),
            "Good evening!": ("bonsoir",),
            "Good night!": ("bonne nuit",),
            "Goodbye!": ("au revoir", "adieu"),
            "See you tomorrow!": ("à demain", "on se voit demain", "je te vois demain"),
            "Thank you!": ("merci", "merci beaucoup", "je te remercie", "je vous remercie"),
            "Thanks!": ("merci",),
            "Please.": ("s'il vous plaît", "s'il te plaît", "je vous en prie", "je t'en prie"),
            "Excuse me.": ("excusez-moi", "excuse-moi", "pardon", "veuillez m'excuser", "pardonnez-moi"),
            "I'm sorry.": ("je suis désolé", "je suis désolée", "désolé", "désolée"),
            "Welcome!": ("bienvenue",),
            "How are you?": ("comment allez-vous", "comment vas-tu", "comment ça va", "ça va"),
            "Yes.": ("oui",),
            "No.": ("non",),
            "Cheers!": ("santé", "à votre santé", "à ta santé", "à la vôtre", "à la tienne"),
            "Congratulations!": ("félicitations", "toutes mes félicitations"),
            "Happy birthday!": ("joyeux anniversaire", "bon anniversaire"),
            "Help!": ("à l'aide", "au secours", "aide", "aidez-moi"),
        },
        "de": {
            "Hello!": ("hallo", "guten tag"),
            "Hi!": ("hallo", "hi"),
            "Good morning!": ("guten morgen",),
            "Good evening!": ("guten abend",),
            "Good night!": ("gute nacht",),
            "Goodbye!": ("auf wiedersehen", "tschüss", "tschüs"),
            "See you tomorrow!": ("bis morgen", "wir sehen uns morgen"),
            "Thank you!": ("danke", "vielen dank", "danke schön", "danke dir", "danke ihnen"),
            "Thanks!": ("danke",),
            "Please.": ("bitte",),
            "Excuse me.": (
                "entschuldigung",
                "entschuldigen sie",
                "entschuldige",
                "verzeihung",
                "entschuldigen sie bitte",
            ),
            "I'm sorry.": ("es tut mir leid", "tut mir leid", "entschuldigung"),
            "Welcome!": ("willkommen", "herzlich willkommen"),
            "How are you?": (
                "wie geht es dir",
                "wie geht es ihnen",
                "wie geht's",
                "wie geht es euch",
                "wie geht's dir",
            ),
            "Yes.": ("ja",),
            "No.": ("nein",),
            "Cheers!": ("prost", "zum wohl"),
            "Congratulations!": (
                "glückwunsch",
                "herzlichen glückwunsch",
                "ich gratuliere",
                "gratulation",
                "gratuliere",
            ),
            "Happy birthday!": ("alles gute zum geburtstag", "herzlichen glückwunsch zum geburtstag"),
            "Help!": ("hilfe",),
        },
    }
)
