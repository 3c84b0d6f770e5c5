/*
 * The host machine's shootdown (src/machine/host/shootdown.c, docs/shootdown.md) as a model for spin.
 *
 * One owner makes accesses, becomes quiescent and active again as it likes; two flushers, one after the other through the lock of the
 * mailbox, take the mapping away, post a request, wait, and then let the frame be used for something else.
 *
 * What x86 may do and C11 allows is modelled where the protocol depends on it: the owner's store of in_access sits in a store
 * buffer until it is drained, by its own exchange or by a membarrier, or whenever the model likes. Everything else that the
 * protocol orders by sequentially consistent operations is a plain step here.
 *
 * Safety    an access that uses the old translation never happens after a flusher has returned (assert in the owner)
 * Progress  a flusher always returns (no invalid end state; and with weak fairness no cycle in which it waits for ever)
 * -DNO_WAIT, -DNO_BARRIER and -DNO_RECHECK take a part out; each must make the checker find an error.
 */
#define NONE 9
#define QUIESCENT 0
#define ACTIVE 1

byte req = 0, ack = 0;
byte state = QUIESCENT;
byte in_access = 0;       /* in memory: what flushers see */
byte buffered = NONE;     /* the owner's store of in_access that is not yet in memory; NONE: none */
bool mapped = true;       /* in the page tables */
bool cached = false;      /* in the owner's TLB */
bool reused = false;      /* the frame is somebody else's */
bool mail_locked = false;
bool mail = false;        /* something is to be dropped */

inline drain()
{
	atomic {
		if
		:: buffered != NONE -> in_access = buffered; buffered = NONE
		:: else
		fi
	}
}

/* The store buffer empties itself at any time. */
active proctype buffer()
{
end:
	do
	:: atomic { buffered != NONE -> in_access = buffered; buffered = NONE }
	od
}

active proctype owner()
{
	byte seen = NONE, done = 0, now;
	bool used;

end:
	do
	:: /* an access */
		atomic { (buffered == NONE) -> buffered = 1 } /* one entry of the buffer is enough: stores leave in order */
		now = req;
		if
		:: now != seen ->
			/* host_sync */
			if
			:: seen == NONE -> atomic { drain(); state = ACTIVE }
			:: else
			fi;
#ifndef NO_RECHECK
			do
			:: req != done ->
				atomic { !mail_locked -> mail_locked = true; drain() }
				done = req;
				if
				:: mail -> cached = false; mail = false
				:: else
				fi;
				mail_locked = false
			:: req == done -> break
			od;
#endif
			seen = done;
			atomic { drain(); ack = done } /* later stores are seen after earlier ones */
		:: else
		fi;
		/* translate: from the TLB, or by a walk that fills it */
		used = false;
		if
		:: cached -> used = true
		:: !cached && mapped -> cached = true; used = true
		:: else /* a fault: not this protocol's business */
		fi;
		/* the byte itself, some time later */
		assert(!used || !reused);
		atomic { (buffered == NONE) -> buffered = 0 }
	:: /* a system call, a fault, a sleep */
		if
		:: seen != NONE ->
			seen = NONE;
			atomic { drain(); state = QUIESCENT }
		:: else
		fi
	od
}

inline flush()
{
	mapped = false;
	/* post */
	atomic { !mail_locked -> mail_locked = true }
	mail = true;
	atomic { req = req + 1; mine = req }
	mail_locked = false;
#ifndef NO_WAIT
	if
	:: state == QUIESCENT
	:: else ->
		/* polled for a while, which is left out where it does not succeed */
		if
		:: ack >= mine
		:: state == QUIESCENT
		:: true ->
#ifndef NO_BARRIER
			drain();
#endif
waiting:
			if
			:: in_access == 0
			:: ack >= mine
			:: state == QUIESCENT
			fi
		fi
	fi
#endif
}

active proctype flusher()
{
	byte mine;

	flush();
	reused = true;
returned:
	skip
}

/* A second request to the same owner at the same time: it takes nothing away that is of interest, but uses the same words. */
active proctype other()
{
	byte mine;

	atomic { !mail_locked -> mail_locked = true }
	mail = true;
	atomic { req = req + 1; mine = req }
	mail_locked = false;
	if
	:: state == QUIESCENT
	:: else ->
		drain();
		if
		:: in_access == 0
		:: ack >= mine
		:: state == QUIESCENT
		fi
	fi
}

ltl returns { <> (flusher@returned) }
