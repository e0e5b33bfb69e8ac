"""Pure: what an SD-WAN and its lab are made of.

`config` has the daemons' configurations as models, `sdwan` what the gateways of an SD-WAN are told,
`lab` the plan of a scenario's lab. Each imports only those before it.
"""
