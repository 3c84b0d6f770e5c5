/* What was seen after a step: building and freeing it. Comparing two is the business of who has two. */
#include "script/observe.h"

#include <stdlib.h>
#include <string.h>

const char script_vmflag_names[NR_SCRIPT_VMFLAGS][3] = {
	[SVF_RD] = "rd", [SVF_WR] = "wr", [SVF_EX] = "ex", [SVF_SH] = "sh", [SVF_MR] = "mr", [SVF_MW] = "mw", [SVF_ME] = "me",
	[SVF_GD] = "gd", [SVF_LO] = "lo", [SVF_SR] = "sr", [SVF_RR] = "rr", [SVF_DC] = "dc", [SVF_DE] = "de", [SVF_AC] = "ac",
	[SVF_NR] = "nr", [SVF_HT] = "ht", [SVF_WF] = "wf", [SVF_DD] = "dd", [SVF_HG] = "hg", [SVF_NH] = "nh", [SVF_UM] = "um",
	[SVF_UW] = "uw", [SVF_LF] = "lf",
};

const char *const script_smap_names[NR_SCRIPT_SMAPS] = {
	[SMAP_RSS] = "Rss",
	[SMAP_PSS] = "Pss",
	[SMAP_PSS_DIRTY] = "Pss_Dirty",
	[SMAP_SHARED_CLEAN] = "Shared_Clean",
	[SMAP_SHARED_DIRTY] = "Shared_Dirty",
	[SMAP_PRIVATE_CLEAN] = "Private_Clean",
	[SMAP_PRIVATE_DIRTY] = "Private_Dirty",
	[SMAP_REFERENCED] = "Referenced",
	[SMAP_ANONYMOUS] = "Anonymous",
	[SMAP_LAZYFREE] = "LazyFree",
	[SMAP_ANONHUGEPAGES] = "AnonHugePages",
	[SMAP_SHMEMPMDMAPPED] = "ShmemPmdMapped",
	[SMAP_FILEPMDMAPPED] = "FilePmdMapped",
	[SMAP_SWAP] = "Swap",
	[SMAP_SWAPPSS] = "SwapPss",
	[SMAP_LOCKED] = "Locked",
};

void script_obs_init(struct script_obs *o)
{
	*o = (struct script_obs){ 0 };
}

void script_obs_clear(struct script_obs *o)
{
	for (size_t i = 0; i < o->nr_areas; i++) {
		free(o->area[i].page);
		free(o->area[i].value);
		free(o->area[i].node);
	}
	free(o->area);
	free(o->vmstat);
	script_obs_init(o);
}

/* Arrays grow at the powers of two, so that their capacity need not be kept. */
static bool grow(struct script_obs *o)
{
	struct script_area *a;

	if (o->nr_areas & (o->nr_areas - 1) || (o->nr_areas && o->nr_areas < 8))
		return true;
	a = realloc(o->area, (o->nr_areas ? o->nr_areas * 2 : 8) * sizeof(*a));
	if (!a)
		return false;
	o->area = a;
	return true;
}

struct script_area *script_obs_add(struct script_obs *o, uint64_t start, uint64_t end, unsigned what)
{
	size_t pages = (size_t)((end - start) >> 12);
	struct script_area a = { .start = start, .end = end, .file = UINT32_MAX };

	if (!grow(o))
		return NULL;
	if (pages && (what & (SOBS_PAGES | SOBS_CONTENTS))) {
		a.page = calloc(pages, sizeof(*a.page));
		if (what & SOBS_CONTENTS)
			a.value = calloc(pages, sizeof(*a.value));
		if (what & SOBS_NODES)
			a.node = malloc(pages);
		if (!a.page || ((what & SOBS_CONTENTS) && !a.value) || ((what & SOBS_NODES) && !a.node)) {
			free(a.page);
			free(a.value);
			free(a.node);
			return NULL;
		}
		if (a.node)
			memset(a.node, -1, pages);
	}
	o->area[o->nr_areas] = a;
	return &o->area[o->nr_areas++];
}
