/*
 * Validation of what a block holds, before it is given to anyone: every word is a reference of 1 to 64 bytes or a
 * known control word, and every payload is complete and as long as its type says. Values are not judged.
 *
 * Runs of references are found eight words at a time: a reference's top four bits are below 7, a control word's are 8
 * or more, and 7 is a size that does not exist, so one comparison tells 'plain reference' from 'look closer'.
 */
#include "trace/check.h"

#include "base/compiler.h"

#include <errno.h>

#define FIRST_NON_REF (7ULL << 60)

static const struct {
	const char *name;
	int payload;
} word_types[NR_WORD_TYPES] = {
	[W_NOP] = { "nop", 0 },		[W_INSNS] = { "insns", 0 },   [W_THREAD] = { "thread", 7 },
	[W_SYSCALL] = { "syscall", 8 }, [W_SYSRET] = { "sysret", 4 }, [W_BUFFER] = { "buffer", 2 },
	[W_FILE] = { "file", 5 },	[W_AREA] = { "area", 7 },     [W_EXEC] = { "exec", 3 },
	[W_NAME] = { "name", -1 },	[W_EXIT] = { "exit", 2 },     [W_LOST] = { "lost", 1 },
};

int trace_word_payload(unsigned type)
{
	return type < NR_WORD_TYPES ? word_types[type].payload : -1;
}

const char *trace_word_name(unsigned type)
{
	return type < NR_WORD_TYPES ? word_types[type].name : "unknown";
}

/* How many plain references there are from words[0] on, at most nr. */
static size_t ref_run(const uint64_t *words, size_t nr)
{
	size_t i = 0;

	for (; i + 8 <= nr; i += 8) {
		uint64_t any = 0;

		for (size_t k = 0; k < 8; k++) /* bit 63 set: 8.. as it is, 7 after adding 1 to the top four bits */
			any |= words[i + k] | (words[i + k] + (1ULL << 60));
		if (any >> 63)
			break;
	}
	while (i < nr && words[i] < FIRST_NON_REF)
		i++;
	return i;
}

static uint64_t sum_insns(const uint64_t *words, size_t nr)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < nr; i++)
		sum += word_insns(words[i]);
	return sum;
}

static void note_control(const uint64_t *w, struct trace_block_info *info)
{
	unsigned type = word_type(w[0]);

	info->ends = type == W_EXIT;
	switch (type) {
	case W_INSNS:
		info->insns += word_arg(w[0]);
		break;
	case W_THREAD:
	case W_SYSCALL:
	case W_SYSRET:
	case W_EXEC:
	case W_EXIT:
		if (!info->first_ticket)
			info->first_ticket = w[1];
		info->last_ticket = w[1];
		break;
	default:
		break;
	}
}

/* Length of the control item at w with its payload, or 0 with *ret_what. */
static size_t control_length(const uint64_t *w, size_t nr, const char **ret_what)
{
	unsigned type = word_type(w[0]), n = word_payload(w[0]);
	unsigned want;

	if (!(w[0] & WORD_CONTROL)) {
		*ret_what = "a reference of 128 bytes";
		return 0;
	}
	if (type >= NR_WORD_TYPES) {
		*ret_what = "a word of unknown type";
		return 0;
	}
	if (type == W_NAME) {
		if (word_arg(w[0]) > 255 * 8) {
			*ret_what = "a name that is too long";
			return 0;
		}
		want = (unsigned)(word_arg(w[0]) + 7) / 8;
	} else {
		want = (unsigned)word_types[type].payload;
	}
	if (type == W_INSNS && word_arg(w[0]) > WORD_INSNS_LONG) {
		*ret_what = "a word of more than 2^34 instructions";
		return 0;
	}
	if (n != want) {
		*ret_what = "a word with a payload of the wrong length";
		return 0;
	}
	if (n + 1 > nr) {
		*ret_what = "a word whose payload is cut off";
		return 0;
	}
	return n + 1;
}

int64_t trace_check_words(const uint64_t *words, size_t nr, size_t limit, struct trace_block_info *info,
			  const char **ret_what)
{
	size_t i = 0, end = MIN(nr, limit);

	while (i < end) {
		size_t n = ref_run(words + i, end - i);

		if (info && n) {
			info->refs += n;
			info->insns += sum_insns(words + i, n);
			info->ends = 0;
		}
		i += n;
		if (i == end)
			break;
		n = control_length(words + i, nr - i, ret_what);
		if (!n)
			return -EBADMSG;
		if (n > end - i)
			break;
		if (info)
			note_control(words + i, info);
		i += n;
	}
	return (int64_t)i;
}
