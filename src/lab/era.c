/*
 * The table of eras. A line says from which release on a setting had its value; an era takes of each setting the last line that is not
 * younger than itself. Distributions carry some changes back to older releases: an era means what kernel.org released.
 */
#include "lab/era.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION(major, minor) ((major) * 1000U + (minor))
#define OLDEST VERSION(4, 0)
#define NEWEST_MAJOR 7

/* In the order of settings, then of releases. */
static const struct era_line table[] = {
	{ "transparent_hugepage.defrag", "always", 0, "a fault waited for a huge page to be made, asked for or not" },
	{ "transparent_hugepage.defrag", "madvise", VERSION(4, 6), "only faults of areas that asked for huge pages wait" },
	{ "transparent_hugepage.shrink_underused", "0", 0, "a huge page of which most is zeros stayed whole" },
	{ "transparent_hugepage.shrink_underused", "1", VERSION(6, 12), "it is split when memory is short, and its parts of zeros are given back" },
	{ "quire.split_zero_to_shared", "0", 0, "a split kept parts of zeros" },
	{ "quire.split_zero_to_shared", "1", VERSION(6, 12), "it maps the shared page of zeros instead" },
	{ "quire.huge_clear_order", "linear", 0, "a huge page was cleared from its first to its last 4 KiB" },
	{ "quire.huge_clear_order", "target_last", VERSION(4, 14), "commit c79b57e462b5: what is about to be accessed is cleared last" },
	{ "quire.huge_copy_order", "linear", 0, "a huge page was copied from its first to its last 4 KiB" },
	{ "quire.huge_copy_order", "target_last", VERSION(4, 19), "the same order for copies (commit c6ddfb6c5890 made it one function)" },
	{ "quire.huge_cow", "copy", 0, "a write to a shared huge page copied all of it" },
	{ "quire.huge_cow", "split", VERSION(5, 8), "commit 3917c80280c9: the mapping is split and 4 KiB are copied" },
	{ "quire.huge_zero_cow", "huge", 0, "a write to the huge zero page got a huge page" },
	{ "quire.huge_zero_cow", "split", VERSION(5, 8), "the same commit: split here too" },
	{ "quire.huge_zero_cow", "huge", VERSION(6, 13), "a huge page again, when there is one" },
	{ "quire.thp_align_mmap", "0", 0, "large anonymous maps were placed like small ones" },
	{ "quire.thp_align_mmap", "1", VERSION(6, 7), "they begin at a 2 MiB boundary" },
	{ "quire.pt_reclaim", "0", 0, "page tables stayed until their area went" },
	{ "quire.pt_reclaim", "1", VERSION(6, 14), "MADV_DONTNEED frees a page table that it has emptied" },
	{ "quire.exec_read_forward", "0", 0, "a fault on executable code read around its page" },
	{ "quire.exec_read_forward", "1", VERSION(6, 16), "it reads from its page on, to the mapping's end at most" },
	{ "quire.lru_batch", "14", 0, "a CPU collected 14 folios before it put them on lists of reclaim" },
	{ "quire.lru_batch", "15", VERSION(4, 19), "15" },
	{ "quire.lru_batch", "31", VERSION(6, 8), "31" },
	{ "quire.mremap_several", "0", 0, "mremap moved one area at a time" },
	{ "quire.mremap_several", "1", VERSION(6, 17), "it moves several at once to a fixed place when nothing is resized" },
	{ "quire.readahead_resumes", "1", 0, "read(2) where the last window ended went on with the next" },
	{ "quire.readahead_resumes", "0", VERSION(6, 11), "only where read(2) itself ended" },
	{ "quire.write_begins_first", "0", 0, "write(2) brought its source in before it made a page of the file" },
	{ "quire.write_begins_first", "1", VERSION(6, 16), "the page first" },
	{ "quire.mremap_judges_first", "0", 0, "mremap unmapped the new place before it judged what lies at the old one" },
	{ "quire.mremap_judges_first", "1", VERSION(6, 17), "it judges arguments and areas first" },
	{ "quire.merge_untouched", "0", 0, "an area with anonymous pages did not merge with a neighbour that has none" },
	{ "quire.merge_untouched", "1", VERSION(6, 16), "it does" },
	{ "quire.fork_tables", "copied", 0, "no release shares page tables at a fork" },
};

static int parse(const char *text, unsigned *ret)
{
	char *end;
	unsigned long major, minor;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	major = strtoul(text, &end, 10);
	if (*end != '.' || end[1] < '0' || end[1] > '9')
		return -EINVAL;
	minor = strtoul(end + 1, &end, 10);
	if (*end || major > NEWEST_MAJOR || minor > 99 || VERSION((unsigned)major, (unsigned)minor) < OLDEST)
		return -EINVAL;
	*ret = VERSION((unsigned)major, (unsigned)minor);
	return 0;
}

int era_find(const char *text, struct era *ret, char *err, size_t errlen)
{
	*ret = (struct era){ 0 };
	if (!text)
		return 0;
	if (parse(text, &ret->version)) {
		snprintf(err, errlen, "--era %.40s: a release of Linux from 4.0 on, as 5.8 or 6.12", text);
		return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct era_line *last = ret->nr ? &ret->line[ret->nr - 1] : NULL;

		if (table[i].since > ret->version)
			continue;
		if (!last || strcmp(last->knob, table[i].knob) != 0)
			last = &ret->line[ret->nr++];
		*last = table[i];
	}
	return 0;
}

void era_apply(const struct era *e, struct knobs *k)
{
	char why[200];

	for (size_t i = 0; i < e->nr; i++)
		if (knob_set(k, e->line[i].knob, e->line[i].value, why, sizeof(why)))
			abort(); /* the table is wrong; a test sets every line */
}

static bool names(char *const *list, size_t nr, const char *knob)
{
	size_t len = strlen(knob);

	for (size_t i = 0; i < nr; i++)
		if (!strncmp(list[i], knob, len) && list[i][len] == '=')
			return true;
	return false;
}

void era_sets(const struct era *e, char *const *sets, size_t nr_sets, char *const *varies, size_t nr_varies, struct era_sets *ret)
{
	ret->nr = 0;
	for (size_t i = 0; i < e->nr; i++) {
		if (names(sets, nr_sets, e->line[i].knob) || names(varies, nr_varies, e->line[i].knob))
			continue;
		snprintf(ret->text[i], sizeof(ret->text[i]), "%s=%s", e->line[i].knob, e->line[i].value);
		ret->v[ret->nr++] = ret->text[i];
	}
	for (size_t i = 0; i < nr_sets && ret->nr < ARRAY_SIZE(ret->v); i++)
		ret->v[ret->nr++] = sets[i];
}
