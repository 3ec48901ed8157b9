"""Text of the page in docs/ that explains the tables."""

NOTES = """\
**Why the load index differs from the print.** In Real Job 2 everything can be collocated, so its
load index at the end says what sending cost before: half of the paper's load, and the share in the
table above of ours. The library packs a block of records column by column and at once
(`ballast.streaming.node_task.pack`), and pays for a block and little for a record in it; the
paper's load also contains what its engine and network did for each tuple.
`make bench BENCH=serialise` has the cost by edge and by size of a block. An edge on which each pair
of key groups has a few records a batch pays several times as much a record, and is the one that
cannot be collocated.

**What is measured.** CPU is the sum over all key groups of what their thread used: decoding,
state, the operator, serialising. *Corrected* divides it by a fixed piece of work timed around it
(ADR 13), because rounds are minutes apart and the machine is shared; *nothing is moved* is the
same job beside it without any plan, and shows what is left of that. The mean of all methods' first
rounds, which have the same placement and the same input, is 100 %. Rounds go on through the year,
96,000 lines a batch, after one whole pass has filled the state. The start is level, with no pair
together that ALBIC's score would collocate. Load distance is that of the round after the plan, on
the next days' flights; a plan's bound is on the loads that it was made from, so it may end above.

**Bytes** are what Spark's shuffles wrote, compressed, as its status store has them. The first
shuffle brings the source to the nodes and is shown separately: no placement saves it. The rest is
records between nodes and, with them, each node's report on its key groups, which stays when
everything is collocated.

**Not as in the paper.** Nodes are logical slots on one machine, so there is no network. Load
points need a node's capacity: an average node is taken to be half loaded in the first round. ALBIC
as printed collocates one pair a round; here it may collocate as many as its budget moves, and
balances by our search. COLA's overhead of moving is not in our load index: states of a few kB are
copied between batches. Flights of three airports in one year stand in for all of ten; `rain_score`
has three stations (docs/papers.md).
"""
