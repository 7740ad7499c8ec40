"""Think about a recorded run: where its steps went, and what is to blame. Needs no torch.

recording.py  all that a rule may look at
rules/        one problem per file
facts/        what rules ask of a recording, each worked out in one place
ledger/       the median step split by cause; a finding's cost is a share of its rows
rank.py       every rule run, no millisecond counted twice, the worst first
told/         the Report: tables, places, lines of source
"""
