#include <bit>
#include <cstring>
#include <map>

#include "manta/base/error_internal.h"
#include "manta/torch/unpickle_internal.h"

namespace manta::detail {
namespace {

// A value takes about 150 bytes, and as little as one byte of the pickle. A model has some ten for
// each tensor.
constexpr size_t kMostValues = 20'000'000;
constexpr size_t kMostMarks = 1000;

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const std::string& what,
            const std::function<bool(const std::string&)>& allows)
      : bytes_(bytes), what_(what), allows_(allows) {}

  Pickle run() {
    while (!pickle_.top) step();
    return std::move(pickle_);
  }

 private:
  using Value = PickleValue;

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kCorrupt,
                manta::str(what_, " is damaged at byte ", at_, " of its pickle: ", why));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::kInvalidArgument, manta::str(what_, " ", why));
  }

  std::string_view take(size_t count) {
    if (count > bytes_.size() - at_) fail("it ends too early");
    auto found = bytes_.substr(at_, count);
    at_ += count;
    return found;
  }
  template <class T>
  T number() {
    static_assert(std::endian::native == std::endian::little);
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string line() {
    size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos || end - at_ > 1000) fail("a name does not end");
    std::string text(take(end - at_));
    take(1);
    return text;
  }

  Value& push(Value::Kind kind) {
    if (pickle_.values.size() >= kMostValues)
      fail(manta::str("more than ", kMostValues, " values"));
    auto value = std::make_unique<Value>();
    value->kind = kind;
    stack_.push_back(value.get());
    pickle_.values.push_back(std::move(value));
    return *stack_.back();
  }
  void push_int(int64_t number) { push(Value::kInt).number = number; }
  void push_text(std::string_view text) { push(Value::kText).text = text; }

  size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  Value* pop() {
    if (stack_.size() <= bottom()) fail("a value is missing");
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Value& top() {
    if (stack_.size() <= bottom()) fail("a value is missing");
    return *stack_.back();
  }
  Value& top(Value::Kind kind) {
    if (top().kind != kind) fail("a value of another type is expected than " + kind_of(top()));
    return top();
  }
  std::vector<const Value*> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    std::vector<const Value*> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                    stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_tuple(size_t count) {
    std::vector<const Value*> items(count);
    while (count > 0) items[--count] = pop();
    push(Value::kTuple).items = std::move(items);
  }

  void global(const std::string& module, const std::string& name) {
    std::string full = module + "." + name;
    if (!allows_(full)) {
      refuse(manta::str("uses '", full,
                        "', which is not read: save a state_dict of tensors with torch.save"));
    }
    push(Value::kGlobal).text = full;
  }

  void reduce() {
    Value* arguments = pop();
    Value* function = pop();
    if (function->kind != Value::kGlobal || arguments->kind != Value::kTuple)
      fail("a call of what is no function");
    if (function->text == "collections.OrderedDict") {
      // It has arguments only in Python 2.
      if (!arguments->items.empty()) refuse("has an OrderedDict in an old form, which is not read");
      push(Value::kDict);
      return;
    }
    Value& call = push(Value::kCall);
    call.text = function->text;
    call.items = arguments->items;
  }

  void set_items(const std::vector<const Value*>& items) {
    if (items.size() % 2 != 0) fail("a key without a value");
    Value& dict = top(Value::kDict);
    for (size_t i = 0; i < items.size(); i += 2) dict.entries.emplace_back(items[i], items[i + 1]);
  }

  void remember(uint64_t place) {
    if (place > kMostValues) fail("a place of the memo that is too large");
    memo_[place] = &top();
  }
  void recall(uint64_t place) {
    auto found = memo_.find(place);
    if (found == memo_.end()) fail("a reference to what is not there");
    if (stack_.size() > kMostValues) fail("too many references");
    stack_.push_back(found->second);
  }

  void push_long(size_t count) {
    if (count > 8) refuse("has a whole number of more than 64 bits, which is not read");
    std::string_view digits = take(count);
    uint64_t value = 0;
    if (count > 0 && (digits[count - 1] & 0x80)) value = ~uint64_t{0};
    for (size_t i = count; i-- > 0;) value = (value << 8) | static_cast<uint8_t>(digits[i]);
    push_int(static_cast<int64_t>(value));
  }
  void push_float() {
    uint64_t bits = __builtin_bswap64(number<uint64_t>());
    std::memcpy(&push(Value::kFloat).real, &bits, sizeof(bits));
  }

  void step() {
    uint8_t code = number<uint8_t>();
    switch (code) {
      case 0x80:  // PROTO
        if (uint8_t protocol = number<uint8_t>(); protocol < 2 || protocol > 5)
          refuse(manta::str("is a pickle of protocol ", int{protocol}, "; 2 to 5 are read"));
        return;
      case 0x95:  // FRAME
        take(8);
        return;
      case '.':  // STOP
        pickle_.top = pop();
        return;
      case '(':
        if (marks_.size() >= kMostMarks) fail("too deep");
        return marks_.push_back(stack_.size());
      case '0':  // POP
        pop();
        return;
      case 'N':
        push(Value::kNone);
        return;
      case 0x88:
      case 0x89:
        push(Value::kBool).number = code == 0x88;
        return;
      case 'K':
        return push_int(number<uint8_t>());
      case 'M':
        return push_int(number<uint16_t>());
      case 'J':
        return push_int(number<int32_t>());
      case 0x8a:  // LONG1
        return push_long(number<uint8_t>());
      case 'G':
        return push_float();
      case 'X':  // BINUNICODE
        return push_text(take(number<uint32_t>()));
      case 0x8c:  // SHORT_BINUNICODE
        return push_text(take(number<uint8_t>()));
      case 0x8d:  // BINUNICODE8
        return push_text(take(number<uint64_t>()));
      case ')':
        return push_tuple(0);
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(code - 0x84u);
      case 't': {
        auto items = pop_to_mark();
        push(Value::kTuple).items = std::move(items);
        return;
      }
      case ']':
        push(Value::kList);
        return;
      case 'a': {  // APPEND
        Value* item = pop();
        top(Value::kList).items.push_back(item);
        return;
      }
      case 'e': {  // APPENDS
        auto items = pop_to_mark();
        auto& list = top(Value::kList).items;
        list.insert(list.end(), items.begin(), items.end());
        return;
      }
      case '}':
        push(Value::kDict);
        return;
      case 's': {  // SETITEM
        Value* value = pop();
        Value* key = pop();
        return set_items({key, value});
      }
      case 'u':  // SETITEMS
        return set_items(pop_to_mark());
      case 'c': {  // GLOBAL
        std::string module = line();
        return global(module, line());
      }
      case 0x93: {  // STACK_GLOBAL
        Value* name = pop();
        Value* module = pop();
        if (name->kind != Value::kText || module->kind != Value::kText) fail("a name is expected");
        return global(module->text, name->text);
      }
      case 'R':
        return reduce();
      case 'b':  // BUILD: attributes, such as the _metadata of a state_dict, which say nothing here
        pop();
        if (top().kind != Value::kDict) refuse("has an object with attributes, which is not read");
        return;
      case 'Q': {  // BINPERSID
        Value* id = pop();
        push(Value::kPersistent).items = {id};
        return;
      }
      case 'q':
        return remember(number<uint8_t>());
      case 'r':
        return remember(number<uint32_t>());
      case 0x94:  // MEMOIZE
        return remember(memo_.size());
      case 'h':
        return recall(number<uint8_t>());
      case 'j':
        return recall(number<uint32_t>());
      default:
        refuse(manta::str("has opcode ", int{code}, " at byte ", at_ - 1,
                          " of its pickle, which is not read: save a state_dict of tensors"));
    }
  }

  const std::string_view bytes_;
  const std::string& what_;
  const std::function<bool(const std::string&)>& allows_;
  size_t at_ = 0;
  Pickle pickle_;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, Value*> memo_;
};

}  // namespace

std::string kind_of(const PickleValue& value) {
  switch (value.kind) {
    case PickleValue::kNone:
      return "None";
    case PickleValue::kBool:
      return "a bool";
    case PickleValue::kInt:
      return "an integer";
    case PickleValue::kFloat:
      return "a float";
    case PickleValue::kText:
      return "a text";
    case PickleValue::kTuple:
      return "a tuple";
    case PickleValue::kList:
      return "a list";
    case PickleValue::kDict:
      return "a dict";
    case PickleValue::kGlobal:
      return value.text;
    case PickleValue::kCall:
      return "a result of " + value.text;
    case PickleValue::kPersistent:
      return "a storage";
  }
  return "a value";
}

Pickle unpickle(std::string_view bytes, const std::string& what,
                const std::function<bool(const std::string& global)>& allows) {
  return Unpickler(bytes, what, allows).run();
}

}  // namespace manta::detail
