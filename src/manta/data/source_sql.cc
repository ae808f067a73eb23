#include <arrow/api.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/part_files_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"
#include "manta/data/stop_check_internal.h"
#include "manta/data/unknown_column_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr FileKind kSql = {"read_sql", ""};
constexpr int64_t kSqlFragmentRows = 1 << 16;
constexpr int64_t kSqlSampleRows = 1000;
constexpr size_t kLongestQuery = 1 << 20;
constexpr int64_t kMostSqlRows = int64_t{1} << 36;  // a million fragments
constexpr size_t kMostCursors = 64;
constexpr int kBusyMilliseconds = 10'000;
constexpr int kStepsBetweenChecks = 100'000;  // of its virtual machine: a millisecond or so

// The types that values of SQLite have; others are for `.column_types`.
const std::vector<std::shared_ptr<arrow::DataType>>& sql_types() {
  static const std::vector<std::shared_ptr<arrow::DataType>> types = {
      arrow::null(),    arrow::int64(), arrow::float64(),
      arrow::boolean(), arrow::utf8(),  arrow::binary()};
  return types;
}

std::shared_ptr<arrow::DataType> sql_type(const std::string& name) {
  for (const auto& type : sql_types()) {
    if (name == type->ToString() || (name == "float64" && type->id() == arrow::Type::DOUBLE)) {
      return type;
    }
  }
  return nullptr;
}

// The query on a file, and the stamp that shows whether the file has changed.
struct SqlQuestion {
  std::string path;
  std::string query;
  int64_t size = 0;
  std::chrono::nanoseconds modified{0};
};

// Functions that give other values in the next run of the query. Functions of date and time do so
// only for the current time: see Clockless.
bool gives_other_values(std::string_view function) {
  for (const char* each : {"random", "randomblob", "current_date", "current_time",
                           "current_timestamp", "changes", "total_changes", "last_insert_rowid"}) {
    if (function == each) return true;
  }
  return false;
}

// Limits what a statement may do: a plan may come from anywhere. `refused` gets the function that
// it may not call.
int only_reads(void* refused, int action, const char*, const char* called, const char*,
               const char*) {
  std::string function = action == SQLITE_FUNCTION && called ? called : "";
  std::transform(function.begin(), function.end(), function.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (function == "load_extension") return SQLITE_DENY;
  if (gives_other_values(function)) {
    *static_cast<std::string*>(refused) = function;
    return SQLITE_DENY;
  }
  bool reads = action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION ||
               action == SQLITE_RECURSIVE;
  return reads ? SQLITE_OK : SQLITE_DENY;
}

/// SQLite's own file access, but without a clock: a query that asks for the current time, in any
/// expression, gets null, and `asked` then returns true.
class Clockless {
 public:
  static const char* name() {
    static const Registered registered;
    return registered.vfs.zName;
  }
  /// Whether this thread has asked for the time since the last call.
  static bool asked() { return std::exchange(asked_, false); }

 private:
  struct Registered {
    Registered() : vfs(*sqlite3_vfs_find(nullptr)) {
      vfs.zName = "manta_clockless";
      vfs.pNext = nullptr;
      vfs.xCurrentTime = [](sqlite3_vfs*, double*) { return refuse(); };
      vfs.xCurrentTimeInt64 = [](sqlite3_vfs*, sqlite3_int64*) { return refuse(); };
      vfs.iVersion = std::max(vfs.iVersion, 2);  // the version that has xCurrentTimeInt64
      MANTA_CHECK(sqlite3_vfs_register(&vfs, /*makeDflt=*/0) == SQLITE_OK,
                  "SQLite without a clock");
    }
    sqlite3_vfs vfs;
  };
  static int refuse() {
    asked_ = true;
    return SQLITE_ERROR;
  }
  static thread_local inline bool asked_ = false;
};

// Without the semicolon.
std::string without_end(std::string query) {
  while (!query.empty() &&
         std::string_view(" \t\r\n;").find(query.back()) != std::string_view::npos) {
    query.pop_back();
  }
  return query;
}

// Uses only stat: opening and closing the file would end SQLite's locks on it.
void require_unchanged(const SqlQuestion& question) {
  struct stat info {};
  bool there = ::stat(question.path.c_str(), &info) == 0;
  if (there && !S_ISREG(info.st_mode)) {  // opening a fifo would wait for a writer
    throw Error(ErrorKind::kInvalidArgument,
                str("read_sql: '", question.path, "' is no regular file"));
  }
  auto modified =
      std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec);
  if (!there || info.st_size != question.size || modified != question.modified) {
    throw Error(ErrorKind::kCorrupt,
                str("read_sql: '", question.path,
                    "' has changed since the data set was made; build it again"));
  }
  if (::stat((question.path + "-wal").c_str(), &info) == 0 && info.st_size > 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("read_sql: '", question.path,
                    "-wal' has changes that are not in the file yet; close what writes to it, or "
                    "run PRAGMA wal_checkpoint(TRUNCATE)"));
  }
}

/// One run of the query, at some row.
class SqlCursor {
 public:
  explicit SqlCursor(const SqlQuestion& question, bool counts = false) : question_(question) {
    require_unchanged(question);
    if (sqlite3_open_v2(question.path.c_str(), &database_,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                        Clockless::name()) != SQLITE_OK) {
      fail("opening it");
    }
    sqlite3_busy_timeout(database_, kBusyMilliseconds);
    sqlite3_set_authorizer(database_, &only_reads, &refused_);
    sqlite3_progress_handler(
        database_, kStepsBetweenChecks, [](void*) { return StopCheck::stopping() ? 1 : 0; },
        nullptr);
    std::string text =
        counts ? str("SELECT count(*) FROM (", without_end(question.query), "\n)") : question.query;
    const char* rest = nullptr;
    if (sqlite3_prepare_v2(database_, text.c_str(), static_cast<int>(text.size()), &statement_,
                           &rest) != SQLITE_OK) {
      if (!refused_.empty()) fail_by_values(refused_ + "()");
      fail("the query");
    }
    std::string_view more(rest ? rest : "");
    if (!statement_ || more.find_first_not_of(" \t\r\n;") != std::string_view::npos ||
        !sqlite3_stmt_readonly(statement_) || sqlite3_column_count(statement_) == 0) {
      close();
      throw Error(ErrorKind::kInvalidArgument,
                  str("read_sql needs one SELECT, not '", printable(question.query, 80), "'"));
    }
  }
  ~SqlCursor() { close(); }
  SqlCursor(const SqlCursor&) = delete;
  SqlCursor& operator=(const SqlCursor&) = delete;

  /// False at the end.
  bool step() {
    Clockless::asked();
    int result = sqlite3_step(statement_);
    if (Clockless::asked()) fail_by_values("the time that it is now");
    if (result == SQLITE_DONE) return false;
    if (result != SQLITE_ROW) fail("reading a row");
    ++row_;
    return true;
  }
  int64_t rows_taken() const { return row_; }  ///< Rows that `step` has taken.
  sqlite3_stmt* statement() const { return statement_; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (int i = 0; i < sqlite3_column_count(statement_); ++i) {
      names.emplace_back(sqlite3_column_name(statement_, i));
    }
    return names;
  }

 private:
  // A query runs once for each part of the rows that is read at a time, and again in each epoch.
  [[noreturn]] void fail_by_values(const std::string& of) {
    close();
    throw Error(
        ErrorKind::kInvalidArgument,
        str("read_sql: '", printable(question_.query, 80), "' of '", question_.path, "' uses ", of,
            ", which is something else whenever the query runs, and it runs for each part "
            "of the rows: some would come twice, and others not at all. Use random_shuffle "
            "or random_sample for an order or a choice by chance, and write a date as text"));
  }

  void close() {
    if (statement_) sqlite3_finalize(statement_);
    if (database_) sqlite3_close(database_);
    statement_ = nullptr;
    database_ = nullptr;
  }

  [[noreturn]] void fail(const std::string& doing) {
    int code = database_ ? sqlite3_errcode(database_) & 0xff : SQLITE_NOMEM;
    std::string why = database_ ? sqlite3_errmsg(database_) : "not enough memory";
    close();
    auto kind = code == SQLITE_IOERR || code == SQLITE_BUSY || code == SQLITE_LOCKED ||
                        code == SQLITE_CANTOPEN
                    ? ErrorKind::kIo
                : code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? ErrorKind::kCorrupt
                : code == SQLITE_NOMEM                            ? ErrorKind::kResources
                : code == SQLITE_INTERRUPT                        ? ErrorKind::kCancelled
                                                                  : ErrorKind::kInvalidArgument;
    throw Error(kind, str("read_sql: '", question_.path, "', ", doing, " '",
                          printable(question_.query, 80), "': ", why));
  }

  const SqlQuestion& question_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
  int64_t row_ = 0;
  std::string refused_;
};

// The type that a column's declaration in the table gives; if none, its first values decide.
std::shared_ptr<arrow::DataType> declared_type(const char* declared) {
  std::string text = declared ? declared : "";
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  // SQLite's own rules of affinity. NUMERIC may hold integers and reals: the values decide.
  if (has("INT")) return arrow::int64();
  if (has("CHAR") || has("CLOB") || has("TEXT")) return arrow::utf8();
  if (has("BLOB")) return arrow::binary();
  if (has("REAL") || has("FLOA") || has("DOUB")) return arrow::float64();
  return nullptr;
}

// Puts values of a column into an array of its type.
class SqlColumn {
 public:
  SqlColumn(const std::shared_ptr<arrow::Field>& field, int place)
      : field_(field),
        place_(place),
        builder_(check(arrow::MakeBuilder(field->type()), "read_sql")) {}

  void append(SqlCursor& cursor) {
    auto* statement = cursor.statement();
    int kind = sqlite3_column_type(statement, place_);
    if (kind == SQLITE_NULL) return check(builder_->AppendNull(), "read_sql");
    switch (field_->type()->id()) {
      case arrow::Type::INT64:
        if (kind != SQLITE_INTEGER) break;
        return check(static_cast<arrow::Int64Builder&>(*builder_).Append(
                         sqlite3_column_int64(statement, place_)),
                     "read_sql");
      case arrow::Type::BOOL: {
        int64_t flag = sqlite3_column_int64(statement, place_);
        if (kind != SQLITE_INTEGER || (flag != 0 && flag != 1)) break;
        return check(static_cast<arrow::BooleanBuilder&>(*builder_).Append(flag == 1), "read_sql");
      }
      case arrow::Type::DOUBLE: {
        double number = sqlite3_column_double(statement, place_);
        bool exact = kind == SQLITE_FLOAT ||
                     (kind == SQLITE_INTEGER && std::abs(number) <= 9007199254740992.0);
        if (!exact) break;
        return check(static_cast<arrow::DoubleBuilder&>(*builder_).Append(number), "read_sql");
      }
      case arrow::Type::STRING:
        if (kind != SQLITE_TEXT) break;
        return append_bytes(sqlite3_column_text(statement, place_),
                            sqlite3_column_bytes(statement, place_));
      case arrow::Type::BINARY:
        if (kind != SQLITE_BLOB && kind != SQLITE_TEXT) break;
        return append_bytes(sqlite3_column_blob(statement, place_),
                            sqlite3_column_bytes(statement, place_));
      default:
        break;
    }
    auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, place_));
    throw Error(
        ErrorKind::kInvalidArgument,
        str("read_sql: column '", field_->name(), "' is of type ", field_->type()->ToString(),
            ", and row ", cursor.rows_taken() - 1, " has the value ", printable(text ? text : ""),
            "; give it another type in .column_types, or CAST it in the query"));
  }

  std::shared_ptr<arrow::Array> finish() { return check(builder_->Finish(), "read_sql"); }

 private:
  void append_bytes(const void* bytes, int size) {
    check(static_cast<arrow::BinaryBuilder&>(*builder_).Append(static_cast<const uint8_t*>(bytes),
                                                               size),
          "read_sql");
  }

  const std::shared_ptr<arrow::Field> field_;
  const int place_;
  std::unique_ptr<arrow::ArrayBuilder> builder_;
};

/// The rows of a query, in the order in which SQLite gives them; a fragment is a number of
/// consecutive rows. Cursors that have given a fragment go on with a later one.
class SqlSource final : public Source {
 public:
  SqlSource(SqlQuestion question, const ReadSqlOptions& options) : question_(std::move(question)) {
    SqlCursor cursor(question_);
    auto names = cursor.names();
    require_distinct(names, "the columns of read_sql");
    for (const auto& [name, type] : options.column_types) {
      if (!contains(names, name)) {
        throw Error(ErrorKind::kNotFound,
                    str("read_sql: .column_types: ", no_such_column(name, names)));
      }
      if (sql_type(type)) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  str("read_sql: column '", name, "' cannot be of type '", type,
                      "'; there are int64, float64, bool, string and binary: cast it later"));
    }
    schema_ = infer(cursor, names, options);
  }
  explicit SqlSource(const JsonFields& fields) {
    question_.path = file_path(fields);
    question_.query = fields.text("query", kLongestQuery);
    question_.size = fields.integer("size", 0, kMaxRows);
    question_.modified = std::chrono::nanoseconds(fields.integer("modified", INT64_MIN, INT64_MAX));
    auto names = fields.texts("names", kLongestName), types = fields.texts("types");
    if (names.size() != types.size()) fields.fail("types", "one for each name");
    require_distinct(names, "the columns of a plan's source");
    arrow::FieldVector all;
    for (size_t i = 0; i < names.size(); ++i) {
      auto type = sql_type(types[i]);
      if (!type) fields.fail("types", "int64, double, bool, string, binary or null");
      all.push_back(arrow::field(names[i], type));
    }
    schema_ = arrow::schema(all);
    set_rows(fields.integer("rows", 0, kMostSqlRows));
  }

  std::string_view name() const override { return "sql"; }
  std::string to_string() override {
    return str("read_sql: '", printable(question_.query, 80), "' of '", question_.path, "'");
  }
  Json to_json() override {
    fragments();
    std::vector<std::string> types;
    for (const auto& field : schema_->fields()) types.push_back(field->type()->ToString());
    std::lock_guard lock(mutex_);
    return {{"path", question_.path},
            {"query", question_.query},
            {"size", question_.size},
            {"modified", question_.modified.count()},
            {"names", schema_->field_names()},
            {"types", types},
            {"rows", rows_}};
  }
  std::string why_not_stored() const override {
    if (is_utf8(Json(question_.path)) && is_utf8(Json(question_.query))) return {};
    return str("the path '", printable(question_.path), "', or the query, is not UTF-8");
  }
  std::shared_ptr<arrow::Schema> schema() override { return schema_; }
  const std::vector<Fragment>& fragments() override {
    std::lock_guard lock(mutex_);
    if (known_) return fragments_;
    SqlCursor counted(question_, /*counts=*/true);
    counted.step();
    int64_t rows = sqlite3_column_int64(counted.statement(), 0);
    if (rows > kMostSqlRows) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("read_sql: the query gives ", rows, " rows, and at most ", kMostSqlRows,
                      " can be read; read parts of them"));
    }
    set_rows(rows);
    return fragments_;
  }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override {
    return str("rows ", first_of(fragment), " to ", first_of(fragment) + *fragments_[fragment].rows,
               " of a query of '", question_.path, "'");
  }
  std::vector<std::string> files() const override { return {question_.path}; }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    int64_t end = first_of(fragment) + *fragments_[fragment].rows;
    auto cursor = cursor_at(first_of(fragment));
    for (int64_t row = first_of(fragment); row < end; row += piece_rows) {
      take(next_rows(*cursor, columns, std::min(piece_rows, end - row)));
    }
    std::lock_guard lock(mutex_);
    bool more = end < rows_ && cursors_.size() < kMostCursors;
    if (more) cursors_.push_back(std::move(cursor));
  }

 private:
  static int64_t first_of(size_t fragment) {
    return static_cast<int64_t>(fragment) * kSqlFragmentRows;
  }

  void set_rows(int64_t rows) {
    rows_ = rows;
    for (int64_t first = 0; first < rows; first += kSqlFragmentRows) {
      int64_t count = std::min(kSqlFragmentRows, rows - first);
      fragments_.push_back({count, count});
    }
    known_ = true;
  }

  static std::shared_ptr<arrow::Schema> infer(SqlCursor& cursor,
                                              const std::vector<std::string>& names,
                                              const ReadSqlOptions& options) {
    std::vector<std::shared_ptr<arrow::DataType>> types(names.size());
    std::vector<bool> given(names.size(), false);
    for (size_t i = 0; i < names.size(); ++i) {
      auto found = options.column_types.find(names[i]);
      types[i] =
          found != options.column_types.end()
              ? sql_type(found->second)
              : declared_type(sqlite3_column_decltype(cursor.statement(), static_cast<int>(i)));
      given[i] = types[i] != nullptr;
    }
    for (int64_t row = 0; row < kSqlSampleRows && cursor.step(); ++row) {
      for (size_t i = 0; i < names.size(); ++i) {
        if (given[i]) continue;
        int kind = sqlite3_column_type(cursor.statement(), static_cast<int>(i));
        auto type = kind == SQLITE_INTEGER ? arrow::int64()
                    : kind == SQLITE_FLOAT ? arrow::float64()
                    : kind == SQLITE_TEXT  ? arrow::utf8()
                    : kind == SQLITE_BLOB  ? arrow::binary()
                                           : nullptr;
        if (!type || (types[i] && types[i]->Equals(*type))) continue;
        bool first = !types[i] || (types[i]->id() == arrow::Type::INT64 && kind == SQLITE_FLOAT);
        bool integer_among_reals =
            types[i] && types[i]->id() == arrow::Type::DOUBLE && kind == SQLITE_INTEGER;
        if (first) types[i] = type;  // a value of another kind fails when it is read
        if (!first && !integer_among_reals) given[i] = true;
      }
    }
    arrow::FieldVector fields;
    for (size_t i = 0; i < names.size(); ++i) {
      fields.push_back(arrow::field(names[i], types[i] ? types[i] : arrow::null()));
    }
    return arrow::schema(fields);
  }

  // A cursor at this row: the nearest one before it, moved there, or a new one.
  std::unique_ptr<SqlCursor> cursor_at(int64_t row) {
    std::unique_ptr<SqlCursor> cursor;
    {
      std::lock_guard lock(mutex_);
      auto best = cursors_.end();
      for (auto at = cursors_.begin(); at != cursors_.end(); ++at) {
        if ((*at)->rows_taken() > row) continue;
        if (best == cursors_.end() || (*at)->rows_taken() > (*best)->rows_taken()) best = at;
      }
      if (best != cursors_.end()) {
        cursor = std::move(*best);
        cursors_.erase(best);
      }
    }
    if (!cursor) cursor = std::make_unique<SqlCursor>(question_);
    while (cursor->rows_taken() < row) require(cursor->step());
    return cursor;
  }

  std::shared_ptr<arrow::RecordBatch> next_rows(SqlCursor& cursor,
                                                const std::vector<std::string>& names,
                                                int64_t rows) const {
    std::vector<SqlColumn> columns;
    arrow::FieldVector fields;
    for (const auto& name : names) {
      int place = schema_->GetFieldIndex(name);
      fields.push_back(schema_->field(place));
      columns.emplace_back(fields.back(), place);
    }
    for (int64_t i = 0; i < rows; ++i) {
      require(cursor.step());
      for (auto& column : columns) column.append(cursor);
    }
    arrow::ArrayVector arrays;
    for (auto& column : columns) arrays.push_back(column.finish());
    return arrow::RecordBatch::Make(arrow::schema(fields), rows, arrays);
  }

  void require(bool there) const {
    if (there) return;
    throw Error(ErrorKind::kCorrupt, str("read_sql: the query of '", question_.path,
                                         "' gives fewer rows than when they were counted; the file "
                                         "has changed: build the data set again"));
  }

  SqlQuestion question_;
  std::shared_ptr<arrow::Schema> schema_;
  std::mutex mutex_;  // of everything below
  std::vector<std::unique_ptr<SqlCursor>> cursors_;
  std::vector<Fragment> fragments_;
  int64_t rows_ = 0;
  bool known_ = false;  // the two fields before it are known, and never change any more
};

}  // namespace

std::shared_ptr<Source> read_sql_source(const JsonFields& fields) {
  return std::make_shared<SqlSource>(fields);
}

Dataset read_sql(const std::string& path, const std::string& query, const ReadSqlOptions& options) {
  if (is_remote(path)) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("read_sql reads SQLite files of this machine, not '", path, "'; copy it first"));
  }
  if (query.size() > kLongestQuery) {
    throw Error(ErrorKind::kInvalidArgument, str("read_sql: a query of ", query.size(),
                                                 " bytes is too long: at most ", kLongestQuery));
  }
  auto files = find_files(kSql, {path});
  if (files.size() != 1) {
    throw Error(ErrorKind::kInvalidArgument,
                str("read_sql needs one file, and '", path, "' means ", files.size()));
  }
  return dataset_of(std::make_shared<SqlSource>(
      SqlQuestion{files[0].path, query, files[0].size, files[0].modified}, options));
}

}  // namespace manta::data
