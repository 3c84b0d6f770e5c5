/*
 * quire as a library: an address space, a fork that copies on write, a pin that outlives the mapping. Built against the installed
 * header and library by tests/api/check-api: cc example.c $(pkg-config --cflags --libs quire)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <quire/quire.h>

#define CHECK(call)                                                                                \
	do {                                                                                        \
		int rc_ = (call);                                                                   \
		if (rc_) {                                                                          \
			fprintf(stderr, "%s: %s\n", #call, strerror(-rc_));                         \
			return 1;                                                                   \
		}                                                                                   \
	} while (0)

int main(void)
{
	const char *const settings[] = { "transparent_hugepage.enabled=never", NULL };
	const struct quire_options options = { .memory = 128 << 20, .settings = settings };
	struct quire_manager *q;
	struct quire_thread *t;
	struct quire_space *parent, *child;
	struct quire_pin *pin;
	quire_addr_t page;
	uint64_t seen;
	int64_t copied;
	char err[200];

	if (quire_open(&options, &q, err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	CHECK(quire_attach(q, &t));
	CHECK(quire_space_create(t, &parent));
	quire_space_switch(t, parent);

	/* Memory comes when it is touched. */
	CHECK(quire_mmap(t, 0, 1 << 20, QUIRE_PROT_READ | QUIRE_PROT_WRITE, QUIRE_MAP_PRIVATE, &page));
	CHECK(quire_store(t, page, 8, 42));

	/* A fork shares it until somebody writes. */
	CHECK(quire_space_fork(t, parent, &child));
	quire_space_switch(t, child);
	CHECK(quire_store(t, page, 8, 43));
	quire_space_switch(t, parent);
	CHECK(quire_load(t, page, 8, &seen));
	CHECK(quire_counter(q, "quire_pages_copied", &copied));
	printf("the parent sees %" PRIu64 ", %" PRId64 " page was copied\n", seen, copied);

	/* A pin is a pointer to it, for as long as it is held. */
	CHECK(quire_pin(t, page, 8, QUIRE_PIN_WRITE, &pin));
	memcpy(pin->segments[0].ptr, &(uint64_t){ 44 }, 8);
	CHECK(quire_load(t, page, 8, &seen));
	CHECK(quire_munmap(t, page, 1 << 20));
	printf("through the mapping %" PRIu64 ", through the pin %" PRIu64 "\n", seen, *(uint64_t *)pin->segments[0].ptr);
	quire_unpin(t, pin);

	quire_space_put(t, child);
	quire_space_put(t, parent);
	quire_detach(t);
	CHECK(quire_close(q));
	return 0;
}
