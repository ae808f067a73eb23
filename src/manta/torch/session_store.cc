#include "manta/torch/session_store_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {
namespace {

std::string to_string(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

class SessionStore : public c10d::Store {
 public:
  explicit SessionStore(Session& session) : Store(session.timeout()), session_(session) {}

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    ask({.kind = StoreRequest::kSet, .keys = {key}, .value = to_string(value)});
  }
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override {
    return to_bytes(ask({.kind = StoreRequest::kCompareSet,
                         .keys = {key},
                         .value = to_string(desired),
                         .expected = to_string(expected)})
                        .value);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    return to_bytes(ask({.kind = StoreRequest::kGet, .keys = {key}}).value);
  }
  int64_t add(const std::string& key, int64_t amount) override {
    return ask({.kind = StoreRequest::kAdd, .keys = {key}, .amount = amount}).number;
  }
  bool deleteKey(const std::string& key) override {
    return ask({.kind = StoreRequest::kDelete, .keys = {key}}).found;
  }
  bool check(const std::vector<std::string>& keys) override {
    return ask({.kind = StoreRequest::kCheck, .keys = keys}).found;
  }
  int64_t getNumKeys() override { return ask({.kind = StoreRequest::kCount}).number; }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    session_.ask_store({.kind = StoreRequest::kGet, .keys = keys}, timeout);
  }
  c10::intrusive_ptr<Store> clone() override { return make_session_store(session_); }

 private:
  StoreReply ask(StoreRequest request) { return session_.ask_store(std::move(request), timeout_); }

  Session& session_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_session_store(Session& session) {
  return c10::make_intrusive<SessionStore>(session);
}

}  // namespace manta::train
