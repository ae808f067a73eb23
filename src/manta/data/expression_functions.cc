#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/expression_function_internal.h"

namespace manta::data {
namespace {

template <class Visit>
void each_function(Visit&& visit) {
  for (auto table : {text_functions(), time_functions(), math_functions(), choice_functions()}) {
    for (const auto& function : table) visit(function);
  }
}

}  // namespace

const ExpressionFunction* find_function(std::string_view name) {
  static const auto by_name = [] {
    std::map<std::string_view, const ExpressionFunction*> functions;
    each_function([&](const ExpressionFunction& function) {
      bool added = functions.emplace(function.name, &function).second;
      MANTA_CHECK(added, "two functions of expressions have one name");
    });
    return functions;
  }();
  auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  each_function([&](const ExpressionFunction& function) { names.emplace_back(function.name); });
  return names;
}

int64_t constant_integer(Evaluator& evaluator, const ExpressionNode& node, size_t index,
                         const char* what) {
  const auto* number = std::get_if<int64_t>(&node.arguments[index]->literal);
  if (node.arguments[index]->op != ExpressionOp::kLiteral || !number) {
    evaluator.fail(str(to_string(node), " needs an integer constant as ", what, ", not ",
                       to_string(*node.arguments[index])));
  }
  return *number;
}

}  // namespace manta::data
