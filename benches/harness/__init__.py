"""What every bench shares: peers measured side by side in one run.

A bench says what to measure (`bench.Bench`: peers, cases, metrics, checks); the rest is here.

`bench`       what a bench is made of, and the order of its samples
`samples`     the measured values; `result` what becomes of them: rows and checks
`cli`         the command line; `run` the loop over all samples, with progress
`table`       the table at the end; `docs` the bench's section of docs/benchmarks.md
`machine`     where it was measured; `usage` CPU and memory of processes and of the machine
`lab`         namespaces, links and processes, removed on every exit
`traffic`     iperf3 and ping between two namespaces
`obtain`      building or finding the peers; `pki` certificates for them
"""
