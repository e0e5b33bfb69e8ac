/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* live_frames OBJECT send INTERFACE FRAMES    send 60-byte frames; prints seconds
 * live_frames OBJECT count INTERFACE          count and drop frames until SIGTERM; prints frames
 */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

enum { FRAME = 60, BATCH = 64 };

static void ignore(int signal)
{
	(void)signal;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static int program(struct bpf_object *object, const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(object, name));
}

static int fail(const char *what)
{
	fprintf(stderr, "live_frames: %s: %s\n", what, strerror(errno));
	return 1;
}

static int send_frames(struct bpf_object *object, unsigned port, unsigned frames)
{
	unsigned char frame[FRAME] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00 };
	struct xdp_md context = { .data_end = FRAME, .ingress_ifindex = port };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = FRAME, .ctx_in = &context,
		    .ctx_size_in = sizeof(context), .repeat = frames, .batch_size = BATCH,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
	double begin;

	if (bpf_xdp_attach(port, program(object, "pass"), 0, NULL))
		return fail("attach");
	begin = now();
	if (bpf_prog_test_run_opts(program(object, "send"), &options))
		return fail("send");
	printf("%.9f\n", now() - begin);
	bpf_xdp_detach(port, 0, NULL);
	return 0;
}

static int count_frames(struct bpf_object *object, unsigned port)
{
	int cpus = libbpf_num_possible_cpus(), key = 0, table;
	unsigned long long *values = calloc(cpus, sizeof(*values)), sum = 0;
	struct sigaction action = { .sa_handler = ignore };

	sigaction(SIGTERM, &action, NULL);
	if (!values || bpf_xdp_attach(port, program(object, "count"), 0, NULL))
		return fail("attach");
	fprintf(stderr, "ready\n");
	pause();
	table = bpf_map__fd(bpf_object__find_map_by_name(object, "frames"));
	if (bpf_map_lookup_elem(table, &key, values))
		return fail("count");
	for (int cpu = 0; cpu < cpus; cpu++)
		sum += values[cpu];
	printf("%llu\n", sum);
	bpf_xdp_detach(port, 0, NULL);
	return 0;
}

int main(int count, char **words)
{
	struct bpf_object *object;
	unsigned port;

	if (count < 4)
		return fail("usage");
	port = if_nametoindex(words[3]);
	object = bpf_object__open(words[1]);
	if (!port || !object || bpf_object__load(object))
		return fail("load");
	if (!strcmp(words[2], "send") && count == 5)
		return send_frames(object, port, strtoul(words[4], NULL, 10));
	return count_frames(object, port);
}
