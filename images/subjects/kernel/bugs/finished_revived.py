"""Recovery interrupts attempts that have succeeded, as if they had died with their owner, and so they run again."""

from kernel import states

states.OWNED += ("succeeded",)
states.LEGAL["attempt"] |= {("succeeded", "interrupted")}
