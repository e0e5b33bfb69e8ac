"""The SD-WAN system controller (SSC) of document 004; so far its OpenFlow controller (OFC)."""
