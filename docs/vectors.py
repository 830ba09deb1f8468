#!/usr/bin/env python3
"""Computes the decisions of a file such as testdata/vectors.json, and compares.

    docs/vectors.py testdata/vectors.json

docs/vectors.md says the same in words. It needs Python 3.9 and nothing else.
"""
import json
import math
import re
import sys
from fractions import Fraction

LONGEST = 2**63 - 1  # nanoseconds, some 292 years; all sums and products stop here
MASK = 2**64 - 1
UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
UNLIMITED = -1
LEAST = 10 * 10**6  # the shortest wait of retry_after: exact, and of unlimited attempts

def duration(text):
    """The nanoseconds of "1h2m3.5s"."""
    return int(sum(Fraction(n) * UNITS[unit] for n, unit in re.findall(r"([0-9.]+)([a-zµ]+)", text)))

def saturated(n):
    """n, rounded toward zero, or the longest duration."""
    return LONGEST if n >= LONGEST else int(n)

def mix(seed, n):
    """The n-th output of splitmix64."""
    z = (seed + n * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31

def seed_of(key):
    """The seed for a key: FNV-1a, mixed, and never 0."""
    h = 0xCBF29CE484222325
    for byte in key.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return max(1, mix(h, 0))

def draw(seed, attempt, lo, hi):
    """Where a seed falls in a window: the high half of a product of 128 bits."""
    return lo + (mix(seed, attempt) * (hi - lo + 1) >> 64)

def curve(backoff, attempt):
    if backoff is None:
        return 0
    if backoff["type"] == "schedule":
        delays = backoff["delays"]
        return duration(delays[min(attempt, len(delays)) - 1])
    base = duration(backoff["base"])
    if backoff["type"] == "fixed":
        return base
    if backoff["type"] == "linear":
        return saturated(attempt * base)
    if backoff["type"] == "fibonacci":
        a, b = 0, 1
        for _ in range(min(attempt, 93) - 1):
            a, b = b, a + b
        return saturated(b * base)
    if attempt == 1 or base == 0:
        return base
    growth = power(float(backoff.get("factor", 2)), attempt - 1)
    return base if growth == 1 else saturated(float(base) * growth)

def power(x, n):
    """x to the n by squaring, which fixes the order of the roundings."""
    y = 1.0
    while n > 0 and y < float(LONGEST):
        if n & 1:
            y *= x
        x *= x
        n >>= 1
    return y

def spread(jitter, d):
    if jitter is None:
        return d, d
    if jitter == "full":
        return 0, d
    if jitter == "equal":
        return d // 2, d
    width = min(d, saturated(float(d) * float(jitter)))
    return d - width, saturated(d + width)

def window(policy, attempt, retry_after):
    """The curve, cut to the cap, spread within the cap, raised to a Retry-After, and to the least wait."""
    mode = policy.get("retry_after")
    if mode == "exact" and retry_after > 0:
        return max(retry_after, LEAST), max(retry_after, LEAST)
    cap = duration(policy.get("max_delay", "0s")) or LONGEST
    jitter = policy.get("jitter")
    lo, hi = spread(jitter, min(curve(policy.get("backoff"), attempt), cap))
    if hi > cap:
        if lo >= cap:
            lo = max(0, cap - (hi - lo))
        hi = cap
    if mode == "at_least":
        if retry_after >= hi:
            lo = hi = retry_after
    elif retry_after > lo:
        start, end = spread(jitter, retry_after)
        lo, hi = retry_after, max(hi, saturated(retry_after + min(end - start, cap)))
    if hi < LEAST and limit(policy) == math.inf:
        lo = hi = LEAST
    return lo, hi

def limit(policy):
    """How many attempts there may be; infinity if there is no limit."""
    if not {"max_attempts", "max_retries", "max_elapsed"} & policy.keys():
        return 1
    attempts, retries = policy.get("max_attempts", UNLIMITED), policy.get("max_retries", UNLIMITED)
    return min(math.inf if attempts == UNLIMITED else attempts,
               math.inf if retries == UNLIMITED else retries + 1,
               policy.get("attempt_cap") or math.inf)

def decide(policy, attempt, seed, elapsed=0, retry_after=0, of_class=None):
    """The reason, the delay and its window."""
    mode = policy.get("retry_after")
    own = of_class["sets"] if of_class else {}
    failures = of_class.get("earlier", 0) + 1 if of_class and "name" in of_class else attempt
    max_elapsed = duration(policy.get("max_elapsed", "0s"))
    longest_wait = duration(policy.get("max_retry_after", "0s")) or max(UNITS["m"], duration(policy.get("max_delay", "0s")))
    reason = "retry"
    if policy.get("retryable") is False or own.get("retryable") is False:
        reason = "not_retryable"
    elif attempt >= limit(policy) or failures >= own.get("max_attempts", math.inf):
        reason = "attempts_exhausted"
    elif retry_after > longest_wait:
        return "retry_after_too_long", retry_after, retry_after, retry_after
    paced = policy | {key: own[key] for key in ("backoff", "max_delay", "jitter") if key in own}
    lo, hi = window(paced, failures if "backoff" in own else attempt, retry_after)
    if retry_after >= LEAST and lo == retry_after and max_elapsed and lo <= max_elapsed - elapsed:
        hi = min(hi, max_elapsed - elapsed)  # the spread above a wait must not end the call
    delay = draw(seed, attempt, lo, hi)
    if mode == "at_least" and delay < retry_after:
        delay = lo = hi = retry_after
    if reason == "retry" and max_elapsed and elapsed + delay > max_elapsed:
        reason = "elapsed"
    return reason, delay, lo, hi

def main(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    wrong = 0
    for number, v in enumerate(vectors, 1):
        got = decide(v["policy"], v["attempt"], int(v["seed"]), v.get("elapsed", 0), v.get("retry_after", 0), v.get("class"))
        want = v["reason"], v["delay"], v["lo"], v["hi"]
        if got != want or "key" in v and int(v["seed"]) != seed_of(v["key"]):
            wrong += 1
            print(f"vector {number}: {json.dumps(v['policy'])}, attempt {v['attempt']}: want {want}, got {got}")
    print(f"{len(vectors)} vectors: {wrong} wrong")
    return 1 if wrong or not vectors else 0

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: docs/vectors.py FILE")
    sys.exit(main(sys.argv[1]))
