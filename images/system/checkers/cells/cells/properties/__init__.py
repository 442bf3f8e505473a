"""One file a cell, with `check(case) -> Check`; `journal_mode` says whether the leg ran in the mode asked for."""
