// Operations on all rows leave nothing when they are killed. That they keep to their memory is
// tested by the program itself: see CMakeLists.txt.

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "manta/base/temporary_folder_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

// Whether DuckDB has written a file in the folder.
bool has_spilled(const std::string& folder) {
  std::error_code ignored;
  for (std::filesystem::recursive_directory_iterator it(folder, ignored), end; it != end;
       it.increment(ignored)) {
    if (it->path().filename().string().starts_with("duckdb_temp")) return true;
  }
  return false;
}

TEST(WideMemory, SigkillWhileItSpillsLeavesNothing) {
  TemporaryFolder folder;
  Program program(test_program("wide_memory"), {"sort", "8000000", std::to_string(64 << 20)},
                  folder.path());
  EXPECT_EQ(program.read_line(), "ready");
  ASSERT_TRUE(eventually([&] { return has_spilled(folder.path()); }));
  program.send(SIGKILL);
  program.wait();
  EXPECT_TRUE(eventually([&] { return folder.entries().empty(); }));
}

}  // namespace
}  // namespace manta
