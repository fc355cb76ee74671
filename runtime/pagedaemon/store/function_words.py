"""Words that hold a sentence together and tell nothing of what it is about.

Articles, prepositions, conjunctions, pronouns, auxiliaries and words that ask, of languages that
write them apart. In a large store their frequency says so too. In a small one it does not: where
one text in fifty has "does", it counts as a rare word, and that text is the best answer to whatever
is asked with it. Nothing that dates or compares is among them (now, then, before, new), and no word
that is common as a name of something.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_BY_LANGUAGE = {
    "en": """
        a about after all also am an and any are aren't as at be been being but by can can't could
        couldn't did didn't do does doesn't doing don't for from had hadn't has hasn't have haven't
        having he he'd he'll he's her hers herself him himself his how i i'd i'll i'm i've if in
        into is isn't it its it's itself just many me much my myself of off on or our ours ourselves
        out shall she she'd she'll she's should shouldn't so some such than that that's the their
        theirs them themselves there there's these they they'd they'll they're they've this those to
        too up us very was wasn't we we'd we'll we're we've were weren't what what's when where
        where's which who whom whose who's why will with won't would wouldn't you you'd you'll
        you're you've your yours yourself d ll m re s t ve
        """,
    "de": """
        aber als am an auch auf aus bei beim bin bist da das dass dein deine deinem deinen deiner
        dem den der des dich die dir doch du durch ein eine einem einen einer eines er es euch euer
        eure für haben habe hast hat hatte hatten ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in
        ins ist kann kannst können mein meine meinem meinen meiner mich mir mit nach noch ob oder
        schon sein seine seinem seinen seiner sich sie sind so um und uns unser unsere unter viel
        viele vielen vom von war waren warum was welche welchem welchen welcher welches wem wen wenn
        wer werden wessen wie wieso wir wird wo woher wohin wurde wurden zu zum zur über
        """,
    "fr": """
        ai as au aux avec avez avait avons c ce cela ces cet cette combien comment d dans de des du
        elle elles en es est et eu eux il ils j je l la laquelle le lequel les leur leurs lui m ma
        mais me mes moi mon n ne nos notre nous on ont ou où par pas pour pourquoi qu quand que quel
        quelle quelles quels qui quoi s sa sans se sera ses si son sont suis sur t ta te tes toi ton
        tu un une vos votre vous y à été était étaient êtes être
        """,
    "es": """
        a al como cómo con cual cuál cuales cuáles cuando cuándo cuánta cuántas cuánto cuántos cuyo
        de del donde dónde e el él ella ellas ellos en era eran eres es esa esas ese eso esos esta
        está están estas este esto estos fue fueron ha había han has hay he la las le les lo los me
        mi mis mí nos nosotros o os para pero por porque qué que quien quién quienes se ser si son
        soy su sus también te ti tiene tu tú tus u un una unas uno unos y ya yo
        """,
    "it": """
        a ad ai al alla alle allo anche che chi ci come con cosa cui da dai dal dalla de degli dei
        del della delle dello di dove e ed era erano gli ha hai hanno ho i il in io la le lei li lo
        loro lui ma mi mia mie miei mio ne nei nel nella noi non nostro o per perché più quale quali
        quando quanta quante quanti quanto quello questa queste questi questo se sei si siamo sia
        sono su sua sue sui sul sulla suo suoi ti tra tu tua tuo un una uno vi voi è
        """,
    "nl": """
        aan als ben bij dan dat de deze die dit doe door een en er ge had hadden heb hebben heeft
        het hij hoe hoeveel ik in is je jij jouw jullie kan kunnen maar me met mij mijn naar niet
        nog of om onder ons onze ook op over te tot u uit uw van voor waar waarom wanneer waren was
        wat we welk welke wie wij worden wordt ze zich zij zijn zo
        """,
    "pt": """
        a ao aos as com como da das de dela dele do dos e ela elas ele eles em era eram essa esse
        esta está este estão eu foi foram há isso isto já lhe mas me meu meus minha minhas muito na
        nas no nos nossa nosso num numa não o onde os ou para pela pelo por porque qual quais quando
        quanta quantas quanto quantos que quem se sem ser seu seus sua suas são também te tem tenho
        teu tu tua um uma você vocês à é
        """,
}


def plain(word: str) -> str:
    """As the keyword index has it: without case and accents."""
    apart = unicodedata.normalize("NFD", word.casefold())
    return "".join(char for char in apart if unicodedata.category(char) != "Mn")


def _parts(word: str) -> list[str]:
    # The index cuts at an apostrophe, and so does a query.
    return plain(word).split("'")


_WORDS = frozenset(
    part for words in _BY_LANGUAGE.values() for word in words.split() for part in _parts(word)
)


@lru_cache(maxsize=20_000)
def says_little(word: str) -> bool:
    """Whether a word, as it was written, is a function word. One in capitals is a name or an
    abbreviation: IT, WHO, US."""
    if len(word) > 1 and word.isupper():
        return False
    return plain(word) in _WORDS
