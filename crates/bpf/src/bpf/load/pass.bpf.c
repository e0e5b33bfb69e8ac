/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Programs besides the meter.
 *
 * `load_pass` passes every frame: live frames can only leave through a port with an XDP program. `load_refused` counts
 * frames that a device refused. XDP has no queue, so these frames are gone; they count as not sent rather than as lost.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Fields of kernel structures that are read; their offsets come from BTF (CO-RE). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} refused SEC(".maps");

const volatile __u32 interface = 0;
const volatile __u32 namespace = 0; /* inode of the network namespace */

SEC("xdp")
int load_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(load_refused, const struct net_device *from, const struct net_device *to, int sent,
	     int drops, int err)
{
	__u32 zero = 0;
	__u64 *count;

	if (drops <= 0 || (__u32)to->ifindex != interface || to->nd_net.net->ns.inum != namespace)
		return 0;
	count = bpf_map_lookup_elem(&refused, &zero);
	if (count)
		*count += drops;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
