#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/tune/searcher.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace {

const char kRandomSearch[] = "RandomSearch";

class RandomSearcher final : public Searcher {
 public:
  explicit RandomSearcher(SearchProblem problem)
      : problem_(std::move(problem)), points_(grid_size(problem_.space)) {}

  std::optional<Assignment> suggest(uint64_t number) override {
    if (number / points_ >= static_cast<uint64_t>(problem_.num_samples)) return std::nullopt;
    Random random(problem_.seed, number);
    return draw(problem_.space, number % points_, random);
  }
  void on_result(const TrialInfo&, const Json&) override {}
  void on_complete(const TrialInfo&, const Json&) override {}

 private:
  const SearchProblem problem_;
  const uint64_t points_;
};

}  // namespace

AnySearcher::AnySearcher(RandomSearch)
    : name_(kRandomSearch),
      make_([](const SearchProblem& problem) { return std::make_unique<RandomSearcher>(problem); }),
      json_({{"name", kRandomSearch}}) {}

AnySearcher AnySearcher::from_json(const Json& json, const std::string& document) {
  JsonFields fields(json, document, "search_alg.");
  if (fields.text("name") != kRandomSearch) fields.fail("name", str("\"", kRandomSearch, "\""));
  return RandomSearch{};
}

}  // namespace manta::tune
