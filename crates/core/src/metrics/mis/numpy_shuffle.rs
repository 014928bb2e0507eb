//! NumPy's legacy random stream, as far as `np.random.seed` and `np.random.shuffle` of a list use it.

/// The Mersenne Twister MT19937.
pub(super) struct NumpyRandom {
    words: Box<[u32; WORDS]>,
    next: usize,
}

const WORDS: usize = 624;
const MIDDLE: usize = 397;

impl NumpyRandom {
    /// The stream after `np.random.seed(seed)`.
    pub fn new(seed: u32) -> NumpyRandom {
        let mut words = Box::new([0u32; WORDS]);
        words[0] = seed;
        for index in 1..WORDS {
            let last = words[index - 1];
            words[index] = 1_812_433_253u32.wrapping_mul(last ^ last >> 30).wrapping_add(index as u32);
        }
        NumpyRandom { words, next: WORDS }
    }

    fn twist(&mut self) {
        for index in 0..WORDS {
            let joined = (self.words[index] & 0x8000_0000) | (self.words[(index + 1) % WORDS] & 0x7fff_ffff);
            let mask = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[index] = self.words[(index + MIDDLE) % WORDS] ^ joined >> 1 ^ mask;
        }
        self.next = 0;
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    /// A number from 0 to `last`, by rejection of masked words.
    fn up_to(&mut self, last: u32) -> u32 {
        let mask = last.checked_ilog2().map_or(0, |bits| u32::MAX >> (31 - bits));
        loop {
            let word = self.word() & mask;
            if word <= last {
                return word;
            }
        }
    }

    /// The numbers below `count`, shuffled as `np.random.shuffle(list(range(count)))`.
    pub fn shuffled(&mut self, count: usize) -> Vec<u8> {
        let mut order: Vec<u8> = (0..count).map(|number| number as u8).collect();
        for last in (1..count).rev() {
            order.swap(last, self.up_to(last as u32) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_numpy() {
        // np.random.seed(42); shuffle of list(range(20)), twice.
        let mut random = NumpyRandom::new(42);
        let first = [0, 17, 15, 1, 8, 5, 11, 3, 18, 16, 13, 2, 9, 19, 4, 12, 7, 10, 14, 6];
        let second = [19, 16, 15, 5, 4, 12, 14, 7, 3, 6, 2, 9, 13, 10, 18, 8, 17, 11, 0, 1];
        assert_eq!((random.shuffled(20), random.shuffled(20)), (first.to_vec(), second.to_vec()));
        // A thousand shuffles pass the end of the words several times without a panic.
        (0..1000).for_each(|_| assert_eq!(random.shuffled(20).iter().map(|&n| u32::from(n)).sum::<u32>(), 190));
    }
}
