/*
 * What replay is given after the reader's checks: well-formed words whose values are anybody's. The input is a program for writing
 * them: whole recordings are made of it, so that most inputs get past the grammar and into the engine. Replayed on a small modelled
 * machine; afterwards the engine must be valid, no address space left over and no frame lost.
 */
#include "fuzz.h"

#include "replay_testing.h"
#include "trace/check.h"

#define STREAMS 4

static const uint16_t calls[] = { 9, 10, 11, 12, 25, 26, 27, 28, 0, 1, 17, 18, 30, 31, 67, 149, 150, 151, 152, 325, 56, 57, 58, 59, 60, 61,
				  231, 202, 7, 35, 237, 238, 256, 279, 435, 425, 3, 2, 257, 319, 53, 16 };
static const uint64_t places[] = { 0, EXE, EXE + 0x4000, STACK_TOP - 64, STACK_TOP - (8 << 20), ANON, ANON + (2 << 20), ANON + (64 << 20),
				   1ULL << 46, (1ULL << 47) - 4096, ~0ULL << 47 };
static const uint64_t lengths[] = { 0, 1, 4096, 4097, 65536, 2 << 20, 3 << 20, 64 << 20, 1ULL << 32, 1ULL << 47, ~0ULL, ~0ULL - 4095 };

static uint64_t address(struct fuzz_bytes *b)
{
	unsigned k = fuzz_u8(b);

	return k >= 240 ? fuzz_u64(b, 8) : places[k % (sizeof(places) / sizeof(places[0]))] + fuzz_u64(b, 3);
}

static uint64_t length(struct fuzz_bytes *b)
{
	unsigned k = fuzz_u8(b);

	return k >= 240 ? fuzz_u64(b, 8) : lengths[k % (sizeof(lengths) / sizeof(lengths[0]))];
}

static uint64_t small(struct fuzz_bytes *b)
{
	unsigned k = fuzz_u8(b);

	return k >= 250 ? fuzz_u64(b, 8) : k;
}

static uint64_t argument(struct fuzz_bytes *b)
{
	switch (fuzz_u8(b) % 4) {
	case 0:
		return address(b);
	case 1:
		return length(b);
	case 2:
		return fuzz_u64(b, 3);
	default:
		return small(b);
	}
}

static void step(struct hand *h, struct fuzz_bytes *b)
{
	unsigned what = fuzz_u8(b), st = fuzz_u8(b) % STREAMS, nr;
	uint64_t a[6], at;
	const char *why = NULL;

	if (st >= h->nr) /* a stream that does not exist yet begins, or not, with the word that says who it is */
		st = what & 0x80 ? st : 0;
	if (st >= h->nr) {
		for (unsigned i = h->nr; i <= st; i++) {
			a[0] = small(b);
			a[1] = small(b);
			a[2] = fuzz_u64(b, 4);
			rec_thread(h, i, a[0], a[1], i - 1, h->ticket, a[2], fuzz_u8(b) % 6);
		}
	}
	switch (what % 8) {
	case 0: /* references: a run of pages or words */
		at = address(b);
		nr = fuzz_u8(b) % 64;
		for (unsigned i = 0; i < nr; i++)
			put(h, st, word_ref(at + i * (what & 0x40 ? 8 : 4096), (what >> 4) % 7, what >> 3 & 1, small(b) & 0xfff));
		break;
	case 1: /* a call and its return */
	case 2:
		nr = calls[fuzz_u8(b) % (sizeof(calls) / sizeof(calls[0]))];
		for (unsigned i = 0; i < 6; i++)
			a[i] = argument(b);
		call_enter(h, st, nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		if (what & 8) {
			a[0] = small(b);
			a[1] = small(b);
			a[2] = length(b);
			a[3] = length(b);
			CONTROL(h, st, W_FILE, 0, a[0], a[1], a[2], a[3], fuzz_u8(b) % 8);
		}
		if (what & 16) {
			a[0] = fuzz_u8(b) & 1;
			a[1] = address(b);
			CONTROL(h, st, W_BUFFER, a[0], a[1], length(b));
		}
		if (what & 32) {
			a[0] = argument(b);
			call_return(h, st, nr, (int64_t)a[0], fuzz_u64(b, 2));
		}
		break;
	case 3: /* any control word, with as much as its type wants */
		nr = fuzz_u8(b) % NR_WORD_TYPES;
		if (nr == W_NAME) {
			CONTROL(h, st, W_NAME, 8, fuzz_u64(b, 8));
			break;
		}
		put(h, st, word_control(nr, (unsigned)trace_word_payload(nr), nr == W_INSNS ? argument(b) % WORD_INSNS_LONG : argument(b)));
		for (int i = 0; i < trace_word_payload(nr); i++)
			put(h, st, argument(b));
		break;
	case 4:
		at = address(b);
		rec_mmap(h, st, at, length(b));
		break;
	case 5:
		at = address(b);
		rec_touch(h, st, at, length(b) & 0xfffff, what & 8);
		break;
	case 6:
		if (what & 16)
			rec_exit(h, st, fuzz_u8(b) % 6);
		h->ticket += small(b);
		break;
	default: /* a word as it comes, if the reader lets it through alone */
		at = fuzz_u64(b, 8);
		if (!(at & WORD_CONTROL) && trace_check_words(&at, 1, 1, NULL, &why) == 1)
			put(h, st, at);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes b = { data, size };
	struct hand *h;
	struct outcome out;
	const char *what = NULL;

	if (size > 4096)
		return 0;
	h = hand_new();
	unsigned cores = 1 + fuzz_u8(&b) % 2;
	struct replay_options o = { .keep_addresses = fuzz_u8(&b) & 1 };

	while (b.left)
		step(h, &b);
	for (unsigned i = 0; i < h->nr; i++)
		fuzz_check(trace_check_words(h->st[i].w, h->st[i].nr, h->st[i].nr, NULL, &what) == (int64_t)h->st[i].nr, "stream %u: %s", i,
			   what ? what : "cut");
	out = replay_hand(h, cores, &o);
	if (out.error)
		fuzz_check_message(out.err, sizeof(out.err));
	fuzz_check(out.counter[VM_nr_anon_pages] == 0, "%lld anonymous pages left over", (long long)out.counter[VM_nr_anon_pages]);
	hand_close(&h->s);
	return 0;
}
