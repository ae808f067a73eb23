#include <nlohmann/json.hpp>

#include "manta/xgboost/ubjson_internal.h"

namespace manta::xgboost {
namespace {

using Any = nlohmann::json;

// A model of the library is ten deep. Reading takes a stack frame for each level, here and in the
// library.
constexpr int kMaxDepth = 64;

// Keeps nothing but the first error.
class Check final : public nlohmann::json_sax<Any> {
 public:
  std::string damage;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return deeper(); }
  bool start_array(size_t) override { return deeper(); }
  bool end_object() override { return shallower(); }
  bool end_array() override { return shallower(); }
  bool parse_error(size_t, const std::string&, const Any::exception& error) override {
    damage = error.what();
    return false;
  }

 private:
  bool deeper() {
    if (++depth_ <= kMaxDepth) return true;
    damage = "it is nested too deeply";
    return false;
  }
  bool shallower() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

}  // namespace

std::string ubjson_damage(std::string_view bytes) {
  if (bytes.empty()) return "it is empty";
  if (bytes.front() != '{') return "it does not begin as an object of UBJSON";
  Check check;
  bool whole = Any::sax_parse(bytes, &check, Any::input_format_t::ubjson);
  if (!whole && check.damage.empty()) return "it is not UBJSON";
  return check.damage;
}

}  // namespace manta::xgboost
