#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "manta/base/names_internal.h"

namespace manta::detail {

/// A value of a Python pickle. Nothing in it is ever called: a call is kept as the name of the
/// function and its arguments.
struct PickleValue {
  enum Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kTuple,
    kList,
    kDict,        ///< Also an OrderedDict.
    kGlobal,      ///< `text` is its name: "torch.FloatStorage".
    kCall,        ///< A call of `text` with `items`.
    kPersistent,  ///< A reference to something outside the pickle; `items` has one value.
  };
  Kind kind = kNone;
  int64_t number = 0;  ///< Of kInt and kBool.
  double real = 0;
  std::string text;
  std::vector<const PickleValue*> items;
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries;  ///< Of kDict.
};

/// "an integer", "a dict", ...
std::string kind_of(const PickleValue& value);

/// The values of a pickle. This object owns them all, so cycles are harmless.
struct Pickle {
  std::vector<std::unique_ptr<PickleValue>> values;
  const PickleValue* top = nullptr;
};

/// Reads the opcodes that torch.save uses for dicts, lists, tuples, numbers, texts and tensors, of
/// protocols 2 to 5. `allows` decides which globals may appear. Throws Error(kCorrupt), or
/// Error(kInvalidArgument) naming a global or opcode that is not supported; `what` begins its
/// message.
Pickle unpickle(std::string_view bytes, const std::string& what,
                const std::function<bool(const std::string& global)>& allows);

}  // namespace manta::detail
