"""Path programs: which paths carry a demand best, and when a change is worth it. Pure.

`wan` describes measured ports and tunnels, `program` computes the optimum over all paths through at
most one transit branch, `members` makes path groups of it, `carried` says what given groups carry,
and `switching` decides when groups are replaced, with the reason.
"""
