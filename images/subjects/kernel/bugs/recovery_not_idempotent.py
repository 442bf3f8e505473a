"""Recovery interrupts what an earlier, killed recovery had interrupted already."""

from kernel import states

states.OWNED += ("interrupted",)
states.LEGAL["attempt"] |= {("interrupted", "interrupted")}
