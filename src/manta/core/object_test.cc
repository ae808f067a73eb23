#include <arrow/api.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <future>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/core/patience_internal.h"
#include "manta/core/remote.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<arrow::Table> table_of(int64_t rows) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) EXPECT_TRUE(builder.Append(i).ok());
  return arrow::Table::Make(arrow::schema({arrow::field("i", arrow::int64())}),
                            {builder.Finish().ValueOrDie()});
}

int64_t sum(const std::shared_ptr<arrow::Table>& table) {
  int64_t total = 0;
  for (const auto& chunk : table->column(0)->chunks()) {
    auto values = std::static_pointer_cast<arrow::Int64Array>(chunk);
    for (int64_t i = 0; i < values->length(); ++i) total += values->Value(i);
  }
  return total;
}

// The number of shared-memory objects that this process has open.
int open_objects() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    auto target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.find("manta-object") != std::string::npos) ++count;
  }
  return count;
}

TEST(Object, PutAndGetOfAnything) {
  EXPECT_EQ(get(put(42)), 42);
  EXPECT_EQ(get(put(std::string("text"))), "text");
  EXPECT_EQ(get(put(std::vector<double>{1, 2, 3})), (std::vector<double>{1, 2, 3}));
  std::string large(1'000'000, 'x');
  EXPECT_EQ(get(put(large)), large);
}

TEST(Object, TablesAreReadInPlace) {
  auto ref = put(table_of(100'000));
  auto a = get(ref);
  auto b = get(ref);
  EXPECT_EQ(sum(a), 99'999ll * 100'000 / 2);
  // Both views map the same pages.
  EXPECT_EQ(a->column(0)->chunk(0)->data()->buffers[1]->address(),
            b->column(0)->chunk(0)->data()->buffers[1]->address());
}

TEST(Object, TablesTravelToTasksAndBack) {
  for (int64_t rows : {0, 10, 100'000}) {
    auto table = put(table_of(rows));
    EXPECT_EQ(get(remote(sum, table), kPatience), rows * (rows - 1) / 2);
    auto sliced = remote(
        [](const std::shared_ptr<arrow::Table>& t) { return t->Slice(t->num_rows() / 2); }, table);
    EXPECT_EQ(get(sliced, kPatience)->num_rows(), rows - rows / 2);
  }
}

TEST(Object, AViewOutlivesItsReference) {
  auto ref = put(table_of(100'000));
  auto table = get(ref);
  ref = {};
  EXPECT_EQ(sum(table), 99'999ll * 100'000 / 2);
}

TEST(Object, IsFreedWithItsLastReference) {
  int before = open_objects();
  {
    auto ref = put(table_of(100'000));
    auto copy = ref;
    ref = {};
    EXPECT_EQ(open_objects(), before + 1);
  }
  EXPECT_EQ(open_objects(), before);
  {
    auto nested = put(std::vector{put(table_of(100'000)), put(table_of(100'000))});
    EXPECT_EQ(open_objects(), before + 2);
    auto inner = get(nested);
    nested = {};
    EXPECT_EQ(open_objects(), before + 2);
  }
  EXPECT_EQ(open_objects(), before);
  {
    auto ref = put(table_of(100'000));
    EXPECT_GT(get(remote(sum, ref), kPatience), 0);
  }
  // The worker releases its arguments a moment after it has answered.
  for (auto until = Clock::now() + kPatience; open_objects() != before && Clock::now() < until;) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(open_objects(), before);
}

TEST(Object, BuffersTravelWithoutACopy) {
  auto buffer =
      std::shared_ptr<arrow::Buffer>(arrow::Buffer::FromString(std::string(500'000, 'b')));
  auto ref = put(buffer);
  EXPECT_EQ(get(ref)->address(), get(ref)->address());
  EXPECT_EQ(get(remote([](const std::shared_ptr<arrow::Buffer>& b) { return b->size(); }, ref),
                kPatience),
            500'000);
}

TEST(Object, ManyLargeArgumentsAtOnce) {
  std::vector<ObjectRef<std::string>> refs;
  for (int i = 0; i < 300; ++i)
    refs.push_back(put(std::string(150'000, static_cast<char>('a' + i % 26))));
  auto count = remote(
      [](const std::vector<ObjectRef<std::string>>& refs) {
        size_t total = 0;
        for (const auto& text : get(refs)) total += text.size();
        return total;
      },
      refs);
  EXPECT_EQ(get(count, kPatience), 300u * 150'000);
}

TEST(Object, EmptyReferencesAreRefused) {
  ObjectRef<int> none;
  EXPECT_FALSE(none);
  EXPECT_THROW(get(none), Error);
  EXPECT_THROW(remote([](int x) { return x; }, none), Error);
  EXPECT_THROW(cancel(none), Error);
}

// How a reference ended, as a callback sees it.
template <class T>
std::future<std::string> seen_by_callback(const ObjectRef<T>& ref) {
  auto promise = std::make_shared<std::promise<std::string>>();
  auto seen = promise->get_future();
  on_ready(ref, [promise, ref] {
    try {
      ref.get(0s);
      promise->set_value("there");
    } catch (const Error& error) {
      promise->set_value(std::string(kind_name(error.kind())));
    }
  });
  return seen;
}

std::string see(std::future<std::string> seen) {
  return seen.wait_for(60s) == std::future_status::ready ? seen.get() : "not called";
}

int fail() { throw std::runtime_error("no"); }

TEST(OnReady, IsCalledForEveryEnd) {
  EXPECT_EQ(see(seen_by_callback(put(1))), "there");
  auto done = remote([] { return 7; });
  EXPECT_EQ(done.get(), 7);
  EXPECT_EQ(see(seen_by_callback(done)), "there");
  EXPECT_EQ(see(seen_by_callback(remote(fail))), kind_name(ErrorKind::kUserCode));
  auto first = remote([] { return 1; });
  auto a = seen_by_callback(first);  // two callbacks for one object, and no one keeps the reference
  auto b = seen_by_callback(std::exchange(first, {}));
  EXPECT_EQ(see(std::move(a)), "there");
  EXPECT_EQ(see(std::move(b)), "there");
  auto long_task = remote([] {
    while (!is_cancelled()) std::this_thread::sleep_for(1ms);
  });
  auto cancelled = seen_by_callback(long_task);
  cancel(long_task);
  EXPECT_EQ(see(std::move(cancelled)), kind_name(ErrorKind::kCancelled));
}

TEST(OnReady, WorksInATask) {
  auto answer = remote([] { return see(seen_by_callback(remote([] { return 1; }))); });
  EXPECT_EQ(answer.get(60s), "there");
}

TEST(OnReady, NeedsAReferenceAndAFunction) {
  EXPECT_THROW(on_ready(ObjectRef<int>(), [] {}), Error);
  EXPECT_THROW(on_ready(put(1), nullptr), Error);
}

}  // namespace
}  // namespace manta
