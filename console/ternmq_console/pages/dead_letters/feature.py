"""The pages of dead letters, by their paths."""

from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.dead_letters.groups import piles
from ternmq_console.pages.dead_letters.letters import letters
from ternmq_console.pages.dead_letters.lines import export_all, export_chosen
from ternmq_console.pages.dead_letters.resending import purge, resend, resend_all

FEATURE = Feature(
    homes=(("/dead-letters", "Dead letters"),),
    shown={
        "/dead-letters": piles,
        "/dead-letters/{group}": letters,
        "/dead-letters/{group}/export": export_all,
    },
    done={
        "/dead-letters/{group}/resend": (resend, letters),
        "/dead-letters/{group}/resend-all": (resend_all, letters),
        "/dead-letters/{group}/export-chosen": (export_chosen, letters),
        "/dead-letters/{group}/purge": (purge, letters),
    },
)
