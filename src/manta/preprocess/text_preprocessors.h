#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/learning.h"

namespace manta {

/// Makes tokens of a text.
using TokenizeFunction = std::vector<std::string> (*)(std::string_view text);

/// Gives a function a name by which Tokenizer, CountVectorizer and HashingVectorizer take it, and
/// by which the next start of this program finds it again. Call it before `main`, once for each
/// name. Returns true, so that it can initialise a variable:
///
///     static const bool words_is_known = manta::register_tokenizer("words", words);
///     ...
///     Tokenizer({"comment"}, {.tokenizer = "words"})
bool register_tokenizer(const std::string& name, TokenizeFunction function);

namespace internal {

/// A tokenizer by its name. An empty name cuts the text at each space, as Python's split(" ") does:
/// two spaces have an empty token between them. Throws Error(kNotFound) for a name that this
/// program does not have.
TokenizeFunction find_tokenizer(const std::string& name);

}  // namespace internal

struct TokenizerOptions {
  std::string tokenizer = "";  ///< The name of a function; empty: cut at spaces.
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Turns columns of text into lists of tokens. Null stays null. Nothing to learn.
class Tokenizer final : public StatelessPreprocessor {
 public:
  explicit Tokenizer(std::vector<std::string> columns, const TokenizerOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::string name() const override { return "Tokenizer"; }
  Json state() const override;
  static Tokenizer from_state(const Json& state);

 private:
  internal::Columns columns_;
  std::string tokenizer_;
  TokenizeFunction function_;
};

struct CountVectorizerOptions {
  std::string tokenizer = "";  ///< The name of a function; empty: cut at spaces.
  int64_t max_features = 0;    ///< Keep only this many tokens, the most frequent. 0: all.
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Counts tokens: a text becomes a list of int64 (fixed_size_list), one number for each learned
/// token, the most frequent token first (equally frequent ones in the order of their bytes; Ray's
/// order among these depends on how the data lies in blocks). Tokens that were not learned do not
/// count. Null is an error. Limits are those of the encoders.
class CountVectorizer final : public LearningPreprocessor {
 public:
  explicit CountVectorizer(std::vector<std::string> columns,
                           const CountVectorizerOptions& options = {});

  bool is_fitted() const override { return !vocabularies_.empty(); }
  void check_columns(const arrow::Schema& schema) const override;
  std::unique_ptr<Tally> start_tally() const override;
  bool finish_tally(Tally& all) override;
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::string name() const override { return "CountVectorizer"; }
  /// What it has learned: {"token_counts(a)": [["the", 12], ["and", 7]]}. Throws
  /// Error(kInvalidArgument) before fit.
  Json stats() const;
  Json state() const override;
  static CountVectorizer from_state(const Json& state);

 private:
  struct Vocabulary;

  internal::Columns columns_;
  CountVectorizerOptions options_;
  TokenizeFunction function_;
  std::vector<std::shared_ptr<const Vocabulary>> vocabularies_;  // by column
};

struct HashingVectorizerOptions {
  std::string tokenizer = "";  ///< The name of a function; empty: cut at spaces.
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Counts tokens by their hashes: a text becomes a list of `num_features` int64 (fixed_size_list).
/// Element i is the number of tokens whose hash is i. The hash is Ray's, to the bit: the SHA-256 of
/// the token's bytes, modulo `num_features`. Null is an error. Nothing to learn.
class HashingVectorizer final : public StatelessPreprocessor {
 public:
  /// Throws Error(kInvalidArgument) unless num_features is between 1 and 1,048,576.
  HashingVectorizer(std::vector<std::string> columns, int64_t num_features,
                    const HashingVectorizerOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::string name() const override { return "HashingVectorizer"; }
  Json state() const override;
  static HashingVectorizer from_state(const Json& state);

 private:
  internal::Columns columns_;
  int64_t num_features_;
  std::string tokenizer_;
  TokenizeFunction function_;
};

/// Adds columns of numbers by the hashes of the columns' names: a row becomes a list of
/// `num_features` float64 (fixed_size_list) in `output_column`. Element i is the sum of the columns
/// whose hash is i. Made for the many columns of a document-term matrix. The hash is that of
/// HashingVectorizer. The columns themselves stay. Null counts as NaN. Nothing to learn.
class FeatureHasher final : public StatelessPreprocessor {
 public:
  /// Throws Error(kInvalidArgument) unless num_features is between 1 and 1,048,576.
  FeatureHasher(std::vector<std::string> columns, int64_t num_features,
                const std::string& output_column);

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::string name() const override { return "FeatureHasher"; }
  Json state() const override;
  static FeatureHasher from_state(const Json& state);

 private:
  internal::Columns columns_;
  int64_t num_features_;
  std::vector<size_t> places_;  // of the columns
};

}  // namespace manta
