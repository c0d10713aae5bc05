#include "connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <thread>

#include "oncebox/driver/call_scope.hpp"

namespace oncebox::sqlite {

namespace {

// Also what waited for a lock: the limits of a call may have ended the wait.
bool may_be_ended_by_limits(int result) {
  return (result & 0xff) == SQLITE_INTERRUPT || (result & 0xff) == SQLITE_BUSY;
}

bool is_locked(int result) {
  return (result & 0xff) == SQLITE_BUSY || (result & 0xff) == SQLITE_LOCKED;
}

ErrorCode code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_PROTOCOL:
      return ErrorCode::unavailable;
    case SQLITE_FULL:
      return ErrorCode::overloaded;
    case SQLITE_CANTOPEN:
      return ErrorCode::not_found;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return ErrorCode::conflict;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::corrupt;
    case SQLITE_TOOBIG:
      return ErrorCode::invalid_argument;
    default:
      return ErrorCode::internal;
  }
}

std::string_view advice_for(int result) {
  switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "; another process held the write lock for too long: try again, or raise busy_timeout";
    case SQLITE_FULL:
      return "; nothing was changed: free some space and try again";
    case SQLITE_CANTOPEN:
      return "; the directory must exist and be writable";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return "; the file and its directory must be writable by this process";
    case SQLITE_NOTADB:
      return "; choose another path";
    case SQLITE_CORRUPT:
      return "; restore the file from a backup";
    default:
      return "";
  }
}

}  // namespace

void throw_error(sqlite3* database, int code, std::string_view what) {
  if ((code & 0xff) == SQLITE_NOMEM) throw std::bad_alloc();
  if (may_be_ended_by_limits(code)) CallScope::current().throw_if_over();
  const char* const reason = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  const std::string message =
      fmt::format("SQLite cannot {}: {} ({}){}", what, reason, code, advice_for(code));
  if (is_locked(code)) throw LockedError(code_of(code), message);
  throw Error(code_of(code), message);
}

void Statement::prepare() {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database_, sql_.data(), static_cast<int>(sql_.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  statement_.reset(statement);
  if (code != SQLITE_OK) throw_error(database_, code, "prepare a statement");
}

void Statement::check(int code, std::string_view what) const {
  if (code != SQLITE_OK) throw_error(database_, code, what);
}

Statement& Statement::bind(int parameter, std::int64_t value) {
  check(sqlite3_bind_int64(prepared(), parameter, value), "bind a number");
  return *this;
}

Statement& Statement::bind(int parameter, TimePoint time) {
  return bind(parameter, std::int64_t{time.time_since_epoch().count()});
}

Statement& Statement::bind(int parameter, std::optional<TimePoint> time) {
  return time ? bind(parameter, *time) : bind_null(parameter);
}

Statement& Statement::bind(int parameter, std::string_view text) {
  // A null pointer would bind NULL.
  const char* const data = text.empty() ? "" : text.data();
  check(sqlite3_bind_text64(prepared(), parameter, data, text.size(), SQLITE_STATIC, SQLITE_UTF8),
        "bind a text");
  return *this;
}

Statement& Statement::bind(int parameter, const std::optional<std::string>& text) {
  return text ? bind(parameter, std::string_view(*text)) : bind_null(parameter);
}

Statement& Statement::bind_blob(int parameter, std::string_view bytes) {
  const char* const data = bytes.empty() ? "" : bytes.data();
  check(sqlite3_bind_blob64(prepared(), parameter, data, bytes.size(), SQLITE_STATIC),
        "bind bytes");
  return *this;
}

Statement& Statement::bind_blob(int parameter, std::span<const std::uint8_t> bytes) {
  check(sqlite3_bind_blob64(prepared(), parameter, bytes.data(), bytes.size(), SQLITE_STATIC),
        "bind bytes");
  return *this;
}

Statement& Statement::bind_null(int parameter) {
  check(sqlite3_bind_null(prepared(), parameter), "bind NULL");
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(prepared());
  if (code == SQLITE_ROW) return true;
  sqlite3_reset(statement_.get());
  if (code != SQLITE_DONE) throw_error(database_, code, "run a statement");
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() noexcept { sqlite3_reset(statement_.get()); }  // null is a no-op

int Statement::columns() { return sqlite3_column_count(prepared()); }

bool Statement::is_read_only() { return sqlite3_stmt_readonly(prepared()) != 0; }

bool Statement::is_null(int column) const noexcept {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t Statement::int64(int column) const noexcept {
  return sqlite3_column_int64(statement_.get(), column);
}

int Statement::int32(int column) const noexcept {
  return sqlite3_column_int(statement_.get(), column);
}

std::string_view Statement::text(int column) const noexcept {
  const auto* const text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::string_view Statement::blob(int column) const noexcept {
  const void* const bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::optional<std::string> Statement::optional_text(int column) const {
  if (is_null(column)) return std::nullopt;
  return std::string(text(column));
}

std::optional<std::string> Statement::optional_blob(int column) const {
  if (is_null(column)) return std::nullopt;
  return std::string(blob(column));
}

Uuid Statement::uuid(int column) const noexcept {
  const std::string_view stored = blob(column);
  Uuid::Bytes bytes{};
  if (stored.size() == bytes.size()) std::copy(stored.begin(), stored.end(), bytes.begin());
  return Uuid(bytes);
}

TimePoint Statement::time(int column) const noexcept { return TimePoint(Duration(int64(column))); }

std::optional<TimePoint> Statement::optional_time(int column) const noexcept {
  if (is_null(column)) return std::nullopt;
  return time(column);
}

Connection::Connection(const ConnectionOptions& options) : busy_timeout_(options.busy_timeout) {
  const bool read_only = options.access == Access::read_only;
  const int flags =
      (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(options.path.c_str(), &database, flags,
                                   options.vfs.empty() ? nullptr : options.vfs.c_str());
  database_.reset(database);
  const std::string what = fmt::format("open \"{}\"", options.path);
  if (code != SQLITE_OK) throw_error(database, code, what);
  sqlite3_busy_handler(database, &Connection::wait_for_lock, this);
  // Statements are kept, so there is little to allocate quickly; the default takes 48 kB.
  constexpr int kSlotBytes = 256;
  constexpr int kSlots = 32;
  sqlite3_db_config(database, SQLITE_DBCONFIG_LOOKASIDE, nullptr, kSlotBytes, kSlots);
  execute("PRAGMA temp_store = MEMORY");
  if (options.cache_bytes > 0) {
    execute(fmt::format("PRAGMA cache_size = -{}",
                        std::max<std::size_t>(options.cache_bytes / 1024, 1)));
  }
}

Connection::Connection(sqlite3* borrowed) : database_(borrowed, Close{.is_borrowed = true}) {
  if (borrowed == nullptr) {
    throw Error(ErrorCode::invalid_argument, "there is no SQLite connection to join");
  }
}

Connection::~Connection() = default;

// SQLite's own handler waits up to 100 ms at a time, long after the lock is free; a commit takes
// about one.
int Connection::wait_for_lock(void* self, int waited) noexcept {
  auto& connection = *static_cast<Connection*>(self);
  if (waited == 0) connection.busy_until_ = Deadline(connection.busy_timeout_);
  if (connection.busy_until_.has_passed() || CallScope::current().is_over()) return 0;
  constexpr int kMaxDoublings = 6;
  constexpr std::chrono::microseconds kFirstWait{50};
  std::this_thread::sleep_for(kFirstWait * (1 << std::min(waited, kMaxDoublings)));
  return 1;
}

Connection::Interruption::Interruption(Connection& connection) noexcept
    : database_(CallScope::current().is_limited() ? connection.handle() : nullptr) {
  constexpr int kStepsBetweenLooks = 1'000;
  if (database_ == nullptr) return;
  const auto is_over = [](void* /*unused*/) { return CallScope::current().is_over() ? 1 : 0; };
  sqlite3_progress_handler(database_, kStepsBetweenLooks, is_over, nullptr);
}

Connection::Interruption::~Interruption() {
  if (database_ != nullptr) sqlite3_progress_handler(database_, 0, nullptr, nullptr);
}

void Connection::execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw_error(database_.get(), code, "run a statement");
}

void Connection::release_memory() noexcept { sqlite3_db_release_memory(database_.get()); }

Statement Connection::prepare(std::string_view sql) { return {database_.get(), sql}; }

Statement& Connection::kept(std::string_view sql) {
  return kept_.try_emplace(sql, database_.get(), sql).first->second;
}

std::int64_t Connection::query_integer(const char* sql) {
  Statement statement = prepare(sql);
  return statement.step() ? statement.int64(0) : 0;
}

std::string Connection::query_text(const char* sql) {
  Statement statement = prepare(sql);
  return statement.step() ? std::string(statement.text(0)) : std::string();
}

std::int64_t Connection::last_insert_id() const noexcept {
  return sqlite3_last_insert_rowid(database_.get());
}

std::int64_t Connection::changes() const noexcept { return sqlite3_changes64(database_.get()); }

bool Connection::in_transaction() const noexcept {
  return sqlite3_get_autocommit(database_.get()) == 0;
}

}  // namespace oncebox::sqlite
