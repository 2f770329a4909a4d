//! One input for several decisions: small numbers first, then bytes.

/// What is left of an input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Zero once all is used up.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn bytes(&mut self, at_most: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(self.0.len().min(at_most));
        self.0 = rest;
        piece
    }

    /// Filled up with zeros.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let piece = self.bytes(N);
        array[..piece.len()].copy_from_slice(piece);
        array
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
