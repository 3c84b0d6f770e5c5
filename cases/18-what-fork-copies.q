# Entries copied, tables made and walked by one fork.
title "What fork copies"
source "commit d992895ba2b2 (Lazy page table copies in fork()), redis/redis#9030"
note "1:64 of the report: 384 MiB instead of 24 GiB; counts scale with them."
machine cloud-2cpu
variant base   { set transparent_hugepage.enabled never }
variant huge   { set transparent_hugepage.enabled always }
variant shared { set transparent_hugepage.enabled never }
variant sparse { set transparent_hugepage.enabled never }

L = 384M
if variant.shared { A = mmap L align=2M flags=shared,anon } else { A = mmap L align=2M }
if variant.sparse { touch A..A+L step 2M write } else { touch A..A+L write }
mark
fork P
if time_ns > 0 { report "a fork of 100 MB, by this one" time_ns*100/384/1000 "us" "23000 us before, 1000 us with shared memory left out" }

expect[base] vmstat.quire_fork_entries_4k == L/4K
expect[base] vmstat.quire_fork_tables_made == L/2M
expect[base] vmstat.quire_fork_tables_walked == L/2M
expect[huge] vmstat.quire_fork_entries_2m == L/2M
expect[huge] vmstat.quire_fork_entries_4k == 0
expect[huge] vmstat.quire_fork_tables_walked == 0
expect[shared] vmstat.quire_fork_entries_4k == 0
expect[shared] vmstat.quire_fork_tables_made == 0
expect[sparse] vmstat.quire_fork_entries_4k == L/2M
expect[sparse] vmstat.quire_fork_tables_made == L/2M
expect[sparse] vmstat.quire_fork_tables_walked == L/2M
expect vmstat.quire_flush_fork == 1
if variant.shared {
	proc P {
		expect rss == 0
		touch A read
		expect faults.file == 1
	}
}
expect ledger.adds_up
