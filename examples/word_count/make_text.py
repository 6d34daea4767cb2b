"""Write text.txt again: a text of our own, always the same.

    python make_text.py > text.txt

Sentences are grown from the small grammar below. Words come from our own lists, from their inflections and from
compounds of them, each list with the frequent words first: the n-th word of a list is chosen about 1/n as often as
the first, as in natural language. So a few words are very frequent and thousands are rare.
"""

import re
import sys
from bisect import bisect
from itertools import accumulate, product
from random import Random

WORDS = 320_000

NOUNS = """
river house day hand road water door night field town boat light wind letter garden child voice stone market
bridge story winter tree friend window morning table evening hill horse bird mill harbour summer lamp clock
kitchen neighbour farmer street island song rain wall sister brother ship baker orchard forest coast teacher
storm valley lantern basket village meadow book roof fence journey fire gate cloud sailor tower miller shore
path barrel carpenter ferry corner bell lake ladder cousin weaver kettle map doctor goat cellar anchor captain
key train station rope wheel apple candle blanket fisherman mountain shepherd cart pond donkey engine paper
drawer sail spoon question answer secret promise price coin pocket button needle thread hammer nail board
chimney shoulder finger shadow mirror painter picture colour brush bottle cork feather nest egg sparrow heron
otter beaver salmon trout herring net hook tide wave sand shell pebble cliff cave tunnel well bucket spring
stream marsh reed willow birch maple cedar acorn chestnut walnut cherry pear plum grape vine barn stable hay
plough furrow seed harvest grain flour loaf crumb butter cheese honey beehive wasp spider cricket beetle moth
owl fox badger hedgehog squirrel rabbit deer wolf bear saddle bridle whip wagon tent camp stranger traveller
merchant clerk judge mayor guard thief widow orphan uncle aunt grandmother grandson nephew twin guest landlord
tenant cook maid gardener potter smith tailor cobbler barber printer sculptor fiddler drummer dancer poet
""".split()

VERBS = """
look walk ask call turn open carry wait follow watch talk push pull climb wander gather return answer remember
mend paint repair listen whisper laugh shout cross reach touch lift drop count measure borrow lend offer finish
start visit pass enter leave join guard guide warn thank greet invite welcome praise blame doubt trust trade
collect polish sharpen wash clean rinse pour stir bake roast boil taste chew swallow sniff stare glance wink nod
smile frown sigh cough yawn sneeze shiver tremble stumble limp crawl jump march hurry linger rest dream wonder
consider notice discover recover uncover hide cover wrap fold stack load unload pack unpack tie untie lock unlock
latch hammer saw drill plane carve weave knit stitch sew patch darn sketch trace colour print copy deliver
post stamp sign seal launch anchor row sail steer fish harvest plough plant water weed prune graft pick crush
press strain bottle label store sort weigh pay owe spend earn waste save search explore
""".split()
IRREGULAR = {
    "leave": "left", "lend": "lent", "hide": "hid", "spend": "spent", "pay": "paid", "nod": "nodded",
    "drop": "dropped", "knit": "knitted", "trap": "trapped", "wrap": "wrapped", "stir": "stirred", "sew": "sewed",
}  # fmt: skip
DOUBLED = {"nod", "drop", "knit", "wrap", "stir"}

ADJECTIVES = """
old small long little young great high quiet dark warm white open narrow cold deep bright heavy slow early green
empty broken wooden strange clear soft grey gentle hollow wet dry sharp steep patient careful clever cheerful
lonely silent distant ancient crooked dusty muddy windy rainy sunny foggy frosty icy salty sandy stony grassy
mossy rusty golden silver copper yellow brown crimson scarlet purple pale plain simple honest humble proud brave
timid shy stubborn curious restless weary sleepy hungry thirsty eager idle busy famous forgotten hidden secret
sudden steady sturdy fragile brittle tender rough smooth coarse polished painted faded torn patched folded
crowded deserted peaceful noisy lively merry bitter sweet sour ripe fresh stale frozen melted damp humid mild
fierce furious calm faithful grateful hopeful doubtful careless harmless endless homeless nameless spotless
""".split()

ADVERBS = """
again slowly together never always soon often quietly still away perhaps early once almost already carefully
suddenly gladly somewhere seldom gently twice nearly usually silently later softly patiently indeed sometimes
""".split()

NAMES = """
Anna Martin Clara Peter Elsa Jonas Miriam Tobias Agnes Victor Lena Oscar Ruth Felix Nora Simon Edith Hugo Greta
Walter Ida Bruno Selma Casper Thea Magnus Alma Rufus Vera Leopold Hanna Emil Flora Gustav Marta Otto
""".split()

PLACES = """
Northbrook Millhaven Saltmarsh Greywater Eastford Oldbridge Stonehill Fairmeadow Larkfield Winterbourne Highmoor
Ashdale Redcliff Thornbury Seahollow Underwood Kingsferry Lowmill
""".split()

# Compounds of two nouns: rare words, of which a language has very many.
FIRST_HALVES = """
river water night wind stone mill winter summer storm wood sand rain moon lamp harbour garden farm sea sheep goat
corn barn hill road mountain snow iron field morning sun
""".split()
SECOND_HALVES = """
house side light path man keeper stone gate bridge mark song bird work way bell wall land yard boat book maker
gatherer watcher table top bank worker wheel room shed hand flower grass
""".split()

NUMBERS = "two three four five seven ten twelve twenty forty ninety 3 12 48 100 365 1,000".split()
ORDINALS = "first second third fourth last next 1st 2nd 3rd 21st".split()

GRAMMAR = {
    "text": [
        (8, "{subject} {did}."),
        (5, "{subject} {did}, and {subject} {did}."),
        (4, "When {subject} {did}, {subject} {did}."),
        (4, "In the {noun}, {subject} {did}."),
        (3, "{subject} {did} because {subject} {did}."),
        (3, "There were {number} {plural} {where}, and one of them was {adjective}."),
        (3, '"{subject} {did}," said {name}, "but it wasn\'t {adjective}."'),
        (2, '"Why did {subject} {verb} {object}?" asked {name}.'),
        (2, "It was the {ordinal} {noun} of the year, and nobody {did}!"),
        (2, "{adverb} {subject} {did}; the {noun} was {adjective} and the {noun} was not."),
        (2, "{name} had {done} {object}, which is what {plural} do."),
        (1, "Not {number}, not {number}: {number} {plural} (all of them {adjective}) {did}..."),
        (1, "Who would {verb} {object} if {subject} {did}?"),
    ],
    "subject": [
        (8, "the {noun}"),
        (5, "the {adjective} {noun}"),
        (4, "{name}"),
        (3, "the {plural}"),
        (3, "he"),
        (3, "she"),
        (2, "they"),
        (2, "{name} and the {noun}"),
        (2, "a {noun} from {place}"),
        (1, "the {noun} of the {noun}"),
        (1, "{name}'s {noun}"),
    ],
    "did": [
        (6, "{done} {object}"),
        (5, "{done} {where}"),
        (3, "{adverb} {done} {object}"),
        (3, "{done} to {verb} {object}"),
        (2, "was {doing} {where}"),
        (2, "{done} {adverb}"),
        (2, "{done} {object} {where}"),
        (1, "didn't {verb} {object}"),
    ],
    "object": [
        (6, "the {noun}"),
        (4, "the {adjective} {noun}"),
        (3, "a {noun}"),
        (2, "the {plural}"),
        (2, "{number} {plural}"),
        (1, "it"),
        (1, "a {adjective} {noun} with a {noun}"),
    ],
    "where": [
        (5, "in the {noun}"),
        (4, "by the {noun}"),
        (3, "near {place}"),
        (3, "under the {adjective} {noun}"),
        (2, "on the road to {place}"),
        (2, "behind the {noun}"),
        (1, "between the {noun} and the {noun}"),
    ],
}


def plural(noun):
    if noun.endswith(("man", "child")):
        return noun[:-3] + "men" if noun.endswith("man") else noun + "ren"
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return {"wolf": "wolves", "thief": "thieves", "loaf": "loaves"}.get(noun, noun + "s")


def past(verb):
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def participle(verb):
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    return (verb[:-1] if verb.endswith("e") else verb) + "ing"


def by_rank(words):
    """Pair words with how often they come: about 1/n for the n-th of them."""
    return [(1 / (rank + 2), word) for rank, word in enumerate(words)]


def rules():
    compounds = [first + second for first, second in product(FIRST_HALVES, SECOND_HALVES) if first != second]
    anywhere = Random(1).random
    nouns = NOUNS + sorted(compounds, key=lambda _: anywhere())
    return GRAMMAR | {
        "noun": by_rank(nouns),
        "plural": by_rank([plural(noun) for noun in nouns]),
        "verb": by_rank(VERBS),
        "done": by_rank([past(verb) for verb in VERBS]),
        "doing": by_rank([participle(verb) for verb in VERBS]),
        "adjective": by_rank(ADJECTIVES + [f"un{word}" for word in ADJECTIVES if word.endswith("ed")]),
        "adverb": by_rank(ADVERBS),
        "name": by_rank(NAMES),
        "place": by_rank(PLACES),
        "number": by_rank(NUMBERS),
        "ordinal": by_rank(ORDINALS),
    }


class Author:
    """Grows sentences. Of `Random` only `random()` is used: it is the same in every version of Python."""

    def __init__(self, seed):
        self.random = Random(seed).random
        self.choices = {
            symbol: (list(accumulate(weight for weight, _ in options)), [text for _, text in options])
            for symbol, options in rules().items()
        }

    def __getitem__(self, symbol):
        bounds, texts = self.choices[symbol]
        text = texts[bisect(bounds, self.random() * bounds[-1], hi=len(texts) - 1)]
        return text.format_map(self) if "{" in text else text

    def sentence(self):
        text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", self["text"])
        start = 1 if text.startswith('"') else 0
        return text[:start] + text[start].upper() + text[start + 1 :]

    def lines(self, words):
        """Yield lines of 8 to 12 words until there have been `words` of them."""
        waiting = []
        while words > 0:
            length = 8 + int(self.random() * 5)
            while len(waiting) < length:
                waiting += self.sentence().split()
            yield " ".join(waiting[:length])
            del waiting[:length]
            words -= length


if __name__ == "__main__":
    for line in Author(seed=2017).lines(WORDS):
        sys.stdout.write(line + "\n")
