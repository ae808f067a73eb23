#include <arrow/api.h>

#include <algorithm>
#include <iostream>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/stage_internal.h"

namespace manta {
namespace {

using data::join;

// 1, 2, 3, 7 as "1-3, 7".
std::string ranges(const std::vector<size_t>& numbers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    parts.push_back(i == end ? str(numbers[i]) : str(numbers[i], "-", numbers[end]));
    i = end + 1;
  }
  return join(parts);
}

// Names and constants may hold anything.
std::string line(const std::string& text) {
  return data::printable(text, std::numeric_limits<size_t>::max());
}

std::string indented(const std::string& lines) {
  std::string text;
  for (size_t from = 0; from < lines.size();) {
    size_t end = lines.find('\n', from) + 1;
    text += "    " + lines.substr(from, end - from);
    from = end;
  }
  return text;
}

}  // namespace

std::string Dataset::explain() const {
  data::Pipeline pipeline(data::first_stage(plan_));
  auto& source = *plan_->source;
  const auto& fragments = source.fragments();
  int64_t rows = 0;
  bool known = true;
  std::vector<size_t> skipped;
  for (size_t i = 0; i < fragments.size(); ++i) {
    rows += fragments[i].expected_rows;
    known = known && fragments[i].rows;
    if (pipeline.skips(i)) skipped.push_back(i);
  }
  std::string text = str(line(source.to_string()), "\n");
  text += str("  reads ", pipeline.columns_read().size(), " of ", plan_->columns.size(),
              " columns: ", line(data::join(pipeline.columns_read())), "\n");
  text += str("  skips ", skipped.size(), " of ", fragments.size(), " fragments",
              skipped.empty() ? "" : ": ", ranges(skipped), "; ", known ? "" : "about ", rows,
              " rows in all\n");
  for (const auto& operation : plan_->operations) {
    bool materialises = dynamic_cast<const data::MaterialisingOperation*>(operation.get());
    text += str(line(operation->to_string()), materialises ? ", of all rows at once\n" : "\n");
    for (const auto& inner : operation->inner_plans()) {
      text += indented(Dataset(inner).explain());
    }
  }
  return text;
}

void Dataset::show(int64_t n) const {
  auto table = take(n);
  std::vector<std::vector<std::string>> columns;
  for (int i = 0; i < table->num_columns(); ++i) {
    auto& cells = columns.emplace_back();
    cells.push_back(data::printable(table->field(i)->name()));
    for (const auto& chunk : table->column(i)->chunks()) {
      for (int64_t row = 0; row < chunk->length(); ++row) {
        cells.push_back(data::cell_text(*chunk, row));
      }
    }
  }
  std::vector<size_t> widths(columns.size(), 0);
  for (size_t i = 0; i < columns.size(); ++i) {
    for (const auto& cell : columns[i]) widths[i] = std::max(widths[i], data::width_of(cell));
  }
  for (size_t line = 0; line <= static_cast<size_t>(table->num_rows()); ++line) {
    std::string text;
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto& cell = columns[i][line];
      text += std::string(widths[i] - data::width_of(cell) + (i == 0 ? 0 : 2), ' ') + cell;
    }
    std::cout << text << "\n";
  }
  std::cout << std::flush;
}

}  // namespace manta
