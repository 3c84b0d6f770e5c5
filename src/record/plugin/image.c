/*
 * The areas of a fresh image: what the kernel would have mapped before the first instruction.
 *
 * The emulator tells a plugin neither registers nor its own bookkeeping, but the first thing that nearly every image
 * does is to use its stack: the first reference lies within 16 bytes of the initial stack pointer, above which argc,
 * argv, envp and the auxiliary vector stand. From there the program headers of executable and interpreter are found
 * in memory. The emulator's own mappings never get in the way.
 */
#define _GNU_SOURCE
#include "record/plugin/plugin.h"
#include "record/plugin/qemu_plugin_api.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE 4096ULL
#define PHDRS_MAX 64
#define STACK_WORDS_MAX 4000000 /* argv and envp together fill 32 MiB at most */

struct image {
	uint64_t sp, phdr, phnum, interp_base, execfn;
	char path[PATH_MAX], interp[PATH_MAX];
};

struct object {
	uint64_t bias, nr;
	Elf64_Phdr ph[PHDRS_MAX];
};

static bool read_word(uint64_t at, uint64_t *ret)
{
	return guest_read(at, ret, sizeof(*ret));
}

/* What stands at the initial stack pointer: argc, argv, NULL, envp, NULL, auxiliary vector. False: this is no stack. */
static bool parse_stack(uint64_t sp, struct image *im)
{
	uint64_t at = sp, argc, w, seen = 0;

	if (!read_word(at, &argc) || argc > STACK_WORDS_MAX)
		return false;
	at += 8 + argc * 8;
	if (!read_word(at, &w) || w)
		return false;
	do {
		at += 8;
		if (!read_word(at, &w) || ++seen > STACK_WORDS_MAX)
			return false;
	} while (w);
	for (seen = 0; seen < 64; seen++) {
		uint64_t pair[2];

		at += seen ? 16 : 8;
		if (!guest_read(at, pair, sizeof(pair)))
			return false;
		switch (pair[0]) {
		case AT_PHDR:
			im->phdr = pair[1];
			break;
		case AT_PHNUM:
			im->phnum = pair[1];
			break;
		case AT_BASE:
			im->interp_base = pair[1];
			break;
		case AT_EXECFN:
			im->execfn = pair[1];
			break;
		case AT_NULL:
			im->sp = sp;
			return im->phdr && im->phnum && im->phnum <= PHDRS_MAX;
		default:
			break;
		}
	}
	return false;
}

/*
 * For a program that makes calls, or uses other memory, first: a fresh stack is empty below argc, and lies above a
 * page that can't be touched. The emulator's own threads have such stacks too, but nothing on them passes for an
 * auxiliary vector.
 */
static bool search_stack(uint64_t start, uint64_t end, struct image *im)
{
	uint64_t chunk[512];

	for (uint64_t at = start; at < end; at += sizeof(chunk)) {
		if (!guest_read(at, chunk, sizeof(chunk)))
			return false;
		for (size_t i = 0; i < ARRAY_SIZE(chunk); i++)
			if (chunk[i])
				return parse_stack(ALIGN_DOWN(at + i * 8, 16), im);
	}
	return false;
}

static bool find_stack(struct image *im)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start, end, guard_end = 0;
	char line[PATH_MAX + 128], prot[8];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %7s", &start, &end, prot) != 3)
			continue;
		if (guard_end == start && !strcmp(prot, "rw-p"))
			found = search_stack(start - own.guest_base, end - own.guest_base, im);
		guard_end = strcmp(prot, "---p") ? 0 : end;
	}
	if (f)
		fclose(f);
	return found;
}

/* The object whose file header is at `header`, or whose program headers are known to be at `phdr`. */
static bool read_object(uint64_t header, uint64_t phdr, uint64_t phnum, struct object *o)
{
	Elf64_Ehdr h;

	if (!phdr) {
		if (!guest_read(header, &h, sizeof(h)) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
			return false;
		phdr = header + h.e_phoff;
		phnum = h.e_phnum;
	}
	if (!phnum || phnum > PHDRS_MAX || !guest_read(phdr, o->ph, phnum * sizeof(o->ph[0])))
		return false;
	o->nr = phnum;
	for (uint64_t i = 0; i < o->nr; i++) {
		if (o->ph[i].p_type == PT_PHDR) {
			o->bias = phdr - o->ph[i].p_vaddr;
			return true;
		}
	}
	/* The headers follow the file header in the segment that maps the file's beginning. */
	for (uint64_t i = 0; i < o->nr; i++) {
		if (o->ph[i].p_type == PT_LOAD && o->ph[i].p_offset == 0) {
			o->bias = (header ? header : phdr - sizeof(Elf64_Ehdr)) - o->ph[i].p_vaddr;
			return true;
		}
	}
	return false;
}

static void put_area(struct ring *r, enum area_kind kind, uint64_t start, uint64_t end, unsigned prot, const struct stat *st,
		     uint64_t off)
{
	if (end > start)
		ring_put(r, W_AREA, kind,
			 (uint64_t[]){ start, end - start, prot, st ? st->st_dev : 0, st ? st->st_ino : 0, st ? off : 0,
				       st ? (uint64_t)st->st_size : 0 }, 7);
}

static unsigned prot_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0U) | (flags & PF_W ? PROT_WRITE : 0U) | (flags & PF_X ? PROT_EXEC : 0U);
}

static void put_object(struct ring *r, const struct object *o, enum area_kind kind, const char *path)
{
	struct stat st;
	bool file = stat(path, &st) == 0;
	for (uint64_t i = 0; i < o->nr; i++) {
		const Elf64_Phdr *p = &o->ph[i];
		uint64_t start = p->p_vaddr + o->bias, fend = start + p->p_filesz, end = start + p->p_memsz;

		if (p->p_type != PT_LOAD || !p->p_memsz)
			continue;
		fend = p->p_filesz ? ALIGN_UP(fend, PAGE) : ALIGN_DOWN(start, PAGE);
		put_area(r, kind, ALIGN_DOWN(start, PAGE), fend, prot_of(p->p_flags), file ? &st : NULL,
			 ALIGN_DOWN(p->p_offset, PAGE));
		put_area(r, kind, fend, ALIGN_UP(end, PAGE), prot_of(p->p_flags), NULL, 0);
	}
}

static uint64_t object_top(const struct object *o)
{
	uint64_t top = 0;

	for (uint64_t i = 0; i < o->nr; i++)
		if (o->ph[i].p_type == PT_LOAD)
			top = MAX(top, ALIGN_UP(o->ph[i].p_vaddr + o->bias + o->ph[i].p_memsz, PAGE));
	return top;
}

static void find_interp(const struct object *o, struct image *im)
{
	for (uint64_t i = 0; i < o->nr; i++)
		if (o->ph[i].p_type == PT_INTERP &&
		    !guest_read_string(o->ph[i].p_vaddr + o->bias, im->interp, sizeof(im->interp)))
			im->interp[0] = '\0';
}

/* The host's mapping around an address. It may have grown together with a neighbour above, never below (a guard page). */
static bool mapping_around(uint64_t addr, uint64_t *ret_start, uint64_t *ret_end)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	bool found = false;
	char line[PATH_MAX + 128];

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && addr >= start && addr < end) {
			*ret_start = start;
			*ret_end = end;
			found = true;
		}
	}
	if (f)
		fclose(f);
	return found;
}

/*
 * Right above the last thing that it loaded for the image (interpreter, or stack of a static program) the emulator
 * keeps an interrupt and a global descriptor table, a page each.
 */
static void find_tables(uint64_t top)
{
	uint64_t start, end, len = 2 * PAGE;

	if (mapping_around(top + own.guest_base, &start, &end) && end - own.guest_base >= top + len) {
		own.tables_start = top;
		own.tables_len = len;
	}
}

static uint64_t put_stack(struct ring *r, const struct image *im)
{
	char name[PATH_MAX];
	uint64_t start, end, top;

	if (!mapping_around(im->sp + own.guest_base, &start, &end))
		return 0;
	start -= own.guest_base;
	end -= own.guest_base;
	/* The name of the file is the topmost thing on a stack, below one empty word. */
	if (im->execfn && guest_read_string(im->execfn, name, sizeof(name))) {
		top = ALIGN_UP(im->execfn + strlen(name) + 1 + 8, PAGE);
		end = top > im->sp && top < end ? top : end;
	}
	put_area(r, AREA_STACK, start, end, PROT_READ | PROT_WRITE, NULL, 0);
	return end;
}

static void put_image(struct ring *r, struct image *im, uint64_t first_ref)
{
	struct object exe = { 0 }, interp = { 0 };
	uint64_t stack_end, interp_end;
	bool known = (first_ref && parse_stack(ALIGN_UP(first_ref, 16), im)) || find_stack(im);

	known = known && read_object(0, im->phdr, im->phnum, &exe);
	ring_put(r, W_EXEC, 0,
		 (uint64_t[]){ ring_ticket(own.shared), known ? object_top(&exe) : 0, known ? im->sp : 0 }, 3);
	ring_put_name(r, im->path);
	if (!known) {
		/* No known way leads here; if there is one, the trace says that the image's areas are missing. */
		ring_put(r, W_LOST, 0, (uint64_t[]){ 1 }, 1);
		return;
	}
	put_object(r, &exe, AREA_EXE, im->path);
	find_interp(&exe, im);
	if (im->interp_base && read_object(im->interp_base, 0, 0, &interp))
		put_object(r, &interp, AREA_INTERP, im->interp);
	stack_end = put_stack(r, im);
	interp_end = object_top(&interp);
	find_tables(MAX(stack_end, interp_end));
}

void image_describe(struct ring *r, uint64_t first_ref)
{
	char *binary = (char *)(uintptr_t)qemu_plugin_path_to_binary();
	struct image *im = calloc(1, sizeof(*im));

	own.image_described = true;
	r->limit = r->chunk_end;
	if (im && binary) {
		if (!realpath(binary, im->path))
			snprintf(im->path, sizeof(im->path), "%s", binary);
		put_image(r, im, first_ref);
	}
	free(binary);
	free(im);
}
