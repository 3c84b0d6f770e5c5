/*
 * Which shipped machine is most like this computer.
 *
 * The rule: machines of another architecture (Arm or not) are out unless there is no other. Among the rest the one with the least
 * unlikeness wins, the alphabetically first on a tie. Unlikeness is a weighted sum of how many times larger or smaller something is,
 * counted in doublings: nodes with memory x 4, CPUs x 2, last-level cache of a socket, L2, memory. What is not known counts nothing.
 */
#include "machine/desc_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define MAX_TEXT 256

/* 16 * log2(v), by repeated squaring: integers only, exact to a sixteenth of a doubling. */
static uint64_t log2_16(uint64_t v)
{
	unsigned whole = 63U - (unsigned)__builtin_clzll(v);
	/* v as 1.x with 32 bits behind the point */
	uint64_t x = whole >= 32 ? v >> (whole - 32) : v << (32 - whole), res = whole;

	for (int i = 0; i < 4; i++) {
		x = (uint64_t)(((unsigned __int128)x * x) >> 32);
		res = res * 2 + (x >> 33 != 0);
		x >>= x >> 33 != 0;
	}
	return res;
}

static uint64_t doublings(uint64_t a, uint64_t b)
{
	uint64_t la, lb;

	if (!a || !b)
		return 0;
	la = log2_16(a);
	lb = log2_16(b);
	return la > lb ? la - lb : lb - la;
}

uint64_t desc_unlikeness(const struct computer *c, const struct machine_desc *d)
{
	uint64_t memory = 0;

	for (uint32_t n = 0; n < d->nr_nodes; n++)
		memory += d->nodes[n].memory;
	return (c->arm != d->tlbi.broadcast ? 1ULL << 32 : 0) + 4 * doublings(c->nodes, d->nr_nodes) +
	       2 * doublings(c->cpus, (uint64_t)d->sockets * d->cores_per_socket * d->threads_per_core) +
	       doublings(c->llc_bytes, d->llc.size) + doublings(c->l2_bytes, d->l2.size) + doublings(c->memory, memory);
}

const char *desc_nearest(const struct computer *c)
{
	const char *best = "";
	uint64_t best_score = ~0ULL;
	struct machine_desc *d = malloc(sizeof(*d));

	for (unsigned i = 0; d && i < nr_machine_files; i++) {
		char file[80], err[200];
		uint64_t score;

		snprintf(file, sizeof(file), "%s.yaml", machine_files[i].name);
		if (machine_desc_parse(file, machine_files[i].text, strlen(machine_files[i].text), d, err, sizeof(err)))
			continue;
		score = desc_unlikeness(c, d);
		machine_desc_done(d);
		if (score < best_score) {
			best_score = score;
			best = machine_files[i].name;
		}
	}
	free(d);
	return best;
}

/* The first line of a small file; "" where there is none. */
static void first_line(const char *root, const char *path, char *buf, size_t len)
{
	char full[MAX_TEXT];
	FILE *f;

	buf[0] = '\0';
	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "re");
	if (!f)
		return;
	if (!fgets(buf, (int)len, f))
		buf[0] = '\0';
	fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
}

/* How many numbers are in a list such as 0-3,8. */
static unsigned count_list(const char *s)
{
	unsigned n = 0;

	while (*s >= '0' && *s <= '9') {
		char *end;
		unsigned long from = strtoul(s, &end, 10), to = from;

		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		if (to < from || to > 1UL << 20)
			return n;
		n += (unsigned)(to - from + 1);
		s = *end == ',' ? end + 1 : end;
	}
	return n;
}

/* Data or unified caches of CPU 0 by level, as the kernel lists them. */
static void probe_caches(const char *root, struct computer *c)
{
	uint64_t deepest = 0;

	for (unsigned i = 0; i < 8; i++) {
		char path[MAX_TEXT], text[MAX_TEXT], *end;
		uint64_t size, level;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%u/level", i);
		first_line(root, path, text, sizeof(text));
		level = strtoull(text, NULL, 10);
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%u/size", i);
		first_line(root, path, text, sizeof(text));
		size = strtoull(text, &end, 10);
		size <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
		if (level == 2)
			c->l2_bytes = size;
		if (level > 2 && level >= deepest) {
			deepest = level;
			c->llc_bytes = size;
		}
	}
}

void computer_probe(const char *root, struct computer *ret)
{
	char text[MAX_TEXT];
	struct utsname u;
	FILE *f;

	memset(ret, 0, sizeof(*ret));
	ret->arm = !uname(&u) && (!strncmp(u.machine, "aarch64", 7) || !strncmp(u.machine, "arm", 3));
	first_line(root, "/sys/devices/system/cpu/online", text, sizeof(text));
	ret->cpus = count_list(text);
	first_line(root, "/sys/devices/system/node/has_memory", text, sizeof(text));
	ret->nodes = count_list(text);
	probe_caches(root, ret);
	snprintf(text, sizeof(text), "%s/proc/meminfo", root);
	f = fopen(text, "re");
	if (!f)
		return;
	if (fgets(text, sizeof(text), f) && !strncmp(text, "MemTotal:", 9))
		ret->memory = strtoull(text + 9, NULL, 10) << 10;
	fclose(f);
}
