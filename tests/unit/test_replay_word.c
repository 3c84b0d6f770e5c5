/*
 * The model reads trace words by definitions of its own, because the format lies in a layer above it. Here the two are held together:
 * constants, and every field of words that the format's own functions make.
 */
#include "testing.h"

#include "base/rng.h"
#include "machine/model/replay_word.h"
#include "trace/word.h"

static void constants(void **state)
{
	(void)state;
	assert_true(REPLAY_CONTROL == WORD_CONTROL);
	assert_true(REPLAY_STORE == WORD_STORE);
	assert_true(REPLAY_ADDR_MASK == WORD_ADDR_MASK);
	assert_true(REPLAY_INSNS(~0ULL) == WORD_INSNS_MAX);
	assert_true(REPLAY_LOG2_SIZE(~0ULL) == 7);
	/* Each bit of a word belongs to one field. */
	assert_true(REPLAY_INSNS(REPLAY_CONTROL | REPLAY_STORE | REPLAY_ADDR_MASK) == 0);
	assert_true(REPLAY_LOG2_SIZE(REPLAY_CONTROL | REPLAY_STORE | REPLAY_ADDR_MASK | WORD_INSNS_MAX << WORD_INSNS_SHIFT) == 0);
	assert_true((REPLAY_CONTROL | 7ULL << WORD_SIZE_SHIFT | REPLAY_STORE | WORD_INSNS_MAX << WORD_INSNS_SHIFT | REPLAY_ADDR_MASK) ==
		    ~0ULL);
}

static void check_reference(uint64_t addr, unsigned log2, int store, uint64_t insns)
{
	uint64_t w = word_ref(addr, log2, store, insns);

	assert_true(!(w & REPLAY_CONTROL));
	assert_true((w & REPLAY_ADDR_MASK) == addr && word_addr(w) == addr);
	assert_true(REPLAY_LOG2_SIZE(w) == log2 && word_size(w) == 1U << log2);
	assert_true(!(w & REPLAY_STORE) == !store);
	assert_true(REPLAY_INSNS(w) == insns && word_insns(w) == insns);
}

static void references(void **state)
{
	struct rng r;

	(void)state;
	rng_init(&r, 1, "words");
	for (unsigned bit = 0; bit < 47; bit++)
		check_reference(1ULL << bit, bit % 7, bit & 1, 1ULL << bit % 12);
	for (uint64_t insns = 0; insns <= WORD_INSNS_MAX; insns++)
		check_reference(rng_next(&r) & WORD_ADDR_MASK, (unsigned)rng_below(&r, 7), (int)rng_below(&r, 2), insns);
	check_reference(WORD_ADDR_MASK, 6, 1, WORD_INSNS_MAX);
	/* An address beyond the field does not run into the instructions. */
	assert_true(word_ref(~0ULL, 0, 0, 0) == WORD_ADDR_MASK);
}

static void control_words(void **state)
{
	struct rng r;

	(void)state;
	rng_init(&r, 2, "control");
	for (unsigned t = 0; t < NR_WORD_TYPES; t++)
		for (int i = 0; i < 200; i++) {
			uint64_t arg = rng_next(&r) & WORD_ARG_MASK;
			unsigned n = (unsigned)rng_below(&r, 256);
			uint64_t w = word_control((enum word_type)t, n, arg);

			assert_true(w & REPLAY_CONTROL);
			assert_int_equal(word_type(w), t);
			assert_int_equal(word_payload(w), n);
			assert_true(word_arg(w) == arg);
		}
	assert_true(word_control(W_INSNS, 0, ~0ULL) == word_control(W_INSNS, 0, WORD_ARG_MASK));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants),
		cmocka_unit_test(references),
		cmocka_unit_test(control_words),
	};

	return test_run(tests);
}
