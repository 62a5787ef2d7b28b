//! The reader of ClientHellos and the matcher of names, from outside.

mod builder;
mod laws;

mod corpus;
mod cuts;
mod foreign;
mod openssl;
mod malformed;
mod matching;
