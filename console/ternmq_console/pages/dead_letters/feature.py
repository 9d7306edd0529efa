"""The pages of dead letters, by their paths."""

from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.dead_letters.export_lines import export_all, export_chosen
from ternmq_console.pages.dead_letters.groups import show_groups
from ternmq_console.pages.dead_letters.letters import show_letters
from ternmq_console.pages.dead_letters.resending import purge_letters, resend_all, resend_chosen

FEATURE = PageFeature(
    homes=(("/dead-letters", "Dead letters"),),
    shown={
        "/dead-letters": show_groups,
        "/dead-letters/{group}": show_letters,
        "/dead-letters/{group}/export": export_all,
    },
    done={
        "/dead-letters/{group}/resend": (resend_chosen, show_letters),
        "/dead-letters/{group}/resend-all": (resend_all, show_letters),
        "/dead-letters/{group}/export-chosen": (export_chosen, show_letters),
        "/dead-letters/{group}/purge": (purge_letters, show_letters),
    },
)
