"""Prints the orders that shuffled_indices() must give: the same definition,
written from the published constants of MT19937-64 and splitmix64.

usage: shuffle_oracle.py SIZE SEED EPOCH"""
import sys

MASK = (1 << 64) - 1


def scramble(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def mt19937_64(seed):
    n, m = 312, 156
    state = [seed]
    for i in range(1, n):
        last = state[-1]
        state.append((6364136223846793005 * (last ^ (last >> 62)) + i) & MASK)
    while True:
        for i in range(n):
            x = (state[i] & ~0x7FFFFFFF & MASK) | (state[(i + 1) % n] & 0x7FFFFFFF)
            odd = 0xB5026F5AA96619E9 if x & 1 else 0
            state[i] = state[(i + m) % n] ^ (x >> 1) ^ odd
        for x in state:
            x ^= (x >> 29) & 0x5555555555555555
            x ^= (x << 17) & 0x71D67FFFEDA60000 & MASK
            x ^= (x << 37) & 0xFFF7EEE000000000 & MASK
            yield x ^ (x >> 43)


def main():
    size, seed, epoch = (int(text) for text in sys.argv[1:])
    draws = mt19937_64(scramble((scramble(seed) + epoch) & MASK))
    order = list(range(size))
    for left in range(size, 1, -1):
        drawn = next(draws)
        while drawn < (1 << 64) % left:
            drawn = next(draws)
        order[left - 1], order[drawn % left] = order[drawn % left], order[left - 1]
    print(*order)


main()
