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

/// A value of a Python pickle. Nothing of it is ever called: a call is kept as what would be called
/// with what.
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
    kCall,        ///< Of `text`, with `items`.
    kPersistent,  ///< What the pickle refers to outside of itself; `items` has one value.
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

/// The values of a pickle, which own each other in no order: cycles are harmless.
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
