#include "connection.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <map>
#include <utility>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "sql_error.hpp"

namespace oncebox::postgresql {

const Statement kBeginTransaction{"", "BEGIN ISOLATION LEVEL READ COMMITTED"};
const Statement kCommitTransaction{"", "COMMIT"};

// What `kSettings` below says, but for timeouts of statements, and the defaults of the server. A
// setting of our own ends with the transaction in which it was made, and so tells it from another.
const Statement kSettingsOfOurs{"settings_of_ours", R"sql(
SELECT coalesce(current_setting('oncebox.transaction', true), '') = 'lent',
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('enable_sort', 'off', true),
       set_config('join_collapse_limit', '1', true))sql"};
const Statement kSettingsOfOthers{"settings_of_others", R"sql(
SELECT set_config('oncebox.transaction', 'lent', true),
       set_config('plan_cache_mode', 'auto', true),
       set_config('enable_seqscan', 'on', true),
       set_config('enable_bitmapscan', 'on', true),
       set_config('enable_hashjoin', 'on', true),
       set_config('enable_mergejoin', 'on', true),
       set_config('enable_sort', 'on', true),
       set_config('join_collapse_limit', '8', true),
       set_config('idle_in_transaction_session_timeout', '0', true))sql"};

namespace {

using std::chrono::milliseconds;

constexpr int kOldestServer = 130'000;
constexpr std::string_view kCancelled = "57014";

const Parameters kNoValues;

// Our statements look rows up by an index and touch few of them. The planner cannot know that: the
// statistics of a table that is empty at one moment and full at the next are always wrong. So we
// tell it, and joins are made in the order in which they are written. Reports, which look at
// everything, take this back. And a statement that nobody waits for any more must not hold its
// locks for ever.
constexpr std::string_view kSettings = R"sql(
SELECT set_config('plan_cache_mode', 'force_generic_plan', {local}),
       set_config('enable_seqscan', 'off', {local}),
       set_config('enable_bitmapscan', 'off', {local}),
       set_config('enable_hashjoin', 'off', {local}),
       set_config('enable_mergejoin', 'off', {local}),
       set_config('enable_sort', 'off', {local}),
       set_config('join_collapse_limit', '1', {local}),
       set_config('jit', 'off', {local}),
       set_config('default_transaction_isolation', 'read committed', {local}),
       set_config('statement_timeout', '{call_timeout}', {local}),
       set_config('idle_in_transaction_session_timeout', '{call_timeout}', {local}))sql";

// For connections of a caller: how long the server goes on with a statement, at most.
constexpr std::string_view kLimit = R"sql(
SELECT set_config('oncebox.statement_timeout', current_setting('statement_timeout'), true),
       set_config('statement_timeout',
                  CASE WHEN current_setting('statement_timeout')::interval
                            BETWEEN interval '1 ms' AND interval '{ms} ms'
                       THEN current_setting('statement_timeout') ELSE '{ms}' END, true))sql";
const Statement kNoLimit{"", R"sql(
SELECT set_config('statement_timeout', current_setting('oncebox.statement_timeout'), true))sql"};

std::string trimmed(const char* text) {
  std::string line(text != nullptr ? text : "");
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string_view field(const PGresult* result, int name) {
  const char* const text = PQresultErrorField(result, name);
  return text != nullptr ? std::string_view(text) : std::string_view();
}

std::string settings_sql(const Options& options, bool only_this_transaction) {
  return fmt::format(fmt::runtime(kSettings), fmt::arg("local", only_this_transaction),
                     fmt::arg("call_timeout", options.call_timeout.count()));
}

// How long to wait for each host, so that there is time for all of them. libpq waits for two
// seconds at least.
std::chrono::seconds connect_timeout(const Options& options, std::size_t hosts, Deadline deadline) {
  const auto left = std::chrono::floor<std::chrono::seconds>(time_left(deadline) /
                                                             static_cast<std::int64_t>(hosts));
  return std::clamp(left, std::chrono::seconds{2},
                    std::max(options.connect_timeout, std::chrono::seconds{2}));
}

// What libpq reads out of the URL, with our defaults where it says nothing. libpq's own complaint
// about a URL may quote the part with the password, so it is not repeated.
[[noreturn]] void throw_unreadable() {
  throw Error(ErrorCode::invalid_argument,
              "libpq cannot read the connection URL; it looks like "
              "postgresql://user@host:5432/database?sslmode=verify-full, with special characters "
              "in it percent-escaped");
}

std::map<std::string, std::string> connection_keywords(const Options& options, Deadline deadline) {
  std::map<std::string, std::string> keywords{
      {"fallback_application_name", "oncebox"},
      {"keepalives_idle", "10"},
      {"keepalives_interval", "5"},
      {"keepalives_count", "3"},
      {"tcp_user_timeout", std::to_string(options.call_timeout.count())},
  };
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(
      PQconninfoParse(options.connection.c_str(), nullptr), &PQconninfoFree);
  if (!parsed) throw_unreadable();
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) keywords[option->keyword] = option->val;
  }
  // Else its part behind the @ would stand in what libpq says of a host that is not there. One at
  // the beginning names an abstract socket.
  if (keywords["host"].find('@', 1) != std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                "the connection URL has two @; in a user or password write %40 for it");
  }
  if (keywords["host"].empty()) keywords.erase("host");
  keywords["client_encoding"] = "UTF8";
  std::size_t hosts = 1;
  for (const char* const list : {"host", "hostaddr"}) {
    const auto found = keywords.find(list);
    if (found == keywords.end()) continue;
    const std::string& names = found->second;
    hosts = static_cast<std::size_t>(1 + std::count(names.begin(), names.end(), ','));
  }
  keywords.try_emplace("connect_timeout",
                       std::to_string(connect_timeout(options, hosts, deadline).count()));
  return keywords;
}

// libpq gives no SQLSTATE for a connection that was not made; the words tell what a retry cannot
// change. A server that speaks another language is taken for one that cannot be reached.
[[noreturn]] void throw_not_connected(const std::string& why) {
  const auto says = [&](std::string_view words) { return why.find(words) != std::string::npos; };
  const std::string text = fmt::format("cannot connect to PostgreSQL: {}", why);
  if (says("too many clients") || says("too many connections") ||
      says("remaining connection slots")) {
    throw Error(ErrorCode::overloaded,
                text + "; lower max_connections here or raise it on the server");
  }
  if (says("password authentication failed") || says("no password supplied") ||
      (says("role \"") && says("does not exist")) || says("no pg_hba.conf entry") ||
      says("certificate verify failed") || says("does not match host name") ||
      says("server does not support SSL")) {
    throw Error(ErrorCode::invalid_argument, text);
  }
  if (says("database \"") && says("does not exist")) throw Error(ErrorCode::not_found, text);
  throw Error(ErrorCode::unavailable, text);
}

int milliseconds_until(Deadline deadline) {
  return static_cast<int>(std::clamp<milliseconds::rep>(time_left(deadline).count(), 0, INT_MAX));
}

}  // namespace

Deadline deadline_in(milliseconds time) { return SystemClock::shared().steady() + time; }

milliseconds time_left(Deadline deadline) {
  return std::chrono::ceil<milliseconds>(deadline - SystemClock::shared().steady());
}

void Connection::Finish::operator()(pg_conn* connection) const noexcept {
  if (!is_borrowed) PQfinish(connection);
}

Connection::Connection(const Options& options)
    : Connection(options, deadline_in(options.call_timeout)) {}

Connection::Connection(const Options& options, Deadline deadline)
    : pooling_(options.pooling), local_settings_{"", settings_sql(options, true)} {
  connect(options, deadline);
  set_up(options, deadline);
}

Connection::Connection(pg_conn* borrowed)
    : connection_(borrowed, Finish{.is_borrowed = true}),
      pooling_(Pooling::transaction),
      local_settings_{} {
  if (borrowed == nullptr) {
    throw Error(ErrorCode::invalid_argument, "there is no PostgreSQL connection to join");
  }
  if (PQtransactionStatus(borrowed) != PQTRANS_INTRANS ||
      PQpipelineStatus(borrowed) != PQ_PIPELINE_OFF || PQisnonblocking(borrowed) != 0) {
    throw Error(ErrorCode::conflict,
                "the connection must be inside a transaction in which no statement has failed, "
                "blocking and not in pipeline mode");
  }
  enter_pipeline();
}

// Also when it is of no use to us any more: its owner has to roll back. Refused when an answer is
// still missing.
Connection::~Connection() {
  if (!is_borrowed() || PQstatus(connection_.get()) != CONNECTION_OK) return;
  if (PQexitPipelineMode(connection_.get()) == 1) PQsetnonblocking(connection_.get(), 0);
}

void Connection::enter_pipeline() {
  if (PQsetnonblocking(connection_.get(), 1) != 0 || PQenterPipelineMode(connection_.get()) != 1) {
    throw Error(ErrorCode::internal, "libpq refuses the pipeline mode");
  }
}

pg_conn* Connection::lend() {
  if (PQexitPipelineMode(connection_.get()) != 1 || PQsetnonblocking(connection_.get(), 0) != 0) {
    is_broken_ = true;
    throw Error(ErrorCode::internal, "libpq refuses to leave the pipeline mode");
  }
  return connection_.get();
}

void Connection::take_back() {
  PGconn* const connection = connection_.get();
  // Whatever wraps a connection may have set its own.
  PQsetNoticeReceiver(connection, &Connection::note_warning, this);
  const PGTransactionStatusType status = PQtransactionStatus(connection);
  exchange_ = Exchange::changes_nothing;
  if (PQstatus(connection) != CONNECTION_OK) lose(trimmed(PQerrorMessage(connection)));
  const bool is_in_transaction = status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
  if (!is_in_transaction || PQpipelineStatus(connection) != PQ_PIPELINE_OFF) {
    is_broken_ = true;
    throw Error(ErrorCode::conflict,
                "the handler ended the transaction that it was given, or left a command under way");
  }
  enter_pipeline();
}

// The server leaves its end of the socket open until its process is gone, so that one can tell.
void Connection::close_and_wait(Deadline deadline) noexcept {
  const int other_end = connection_ ? fcntl(PQsocket(connection_.get()), F_DUPFD_CLOEXEC, 0) : -1;
  connection_.reset();
  if (other_end < 0) return;
  const CallOptions& limits = CallScope::current();
  const StopSignal stop(limits.stop);
  std::array<pollfd, 2> waiting{pollfd{.fd = other_end, .events = POLLIN, .revents = 0},
                                pollfd{.fd = stop.descriptor(), .events = POLLIN, .revents = 0}};
  for (;;) {
    const int left = milliseconds_until(limits.deadline_or(deadline));
    if (left == 0 || poll(waiting.data(), waiting.size(), left) <= 0) break;
    if (waiting.back().revents != 0) break;
    char farewell[256];
    if (read(other_end, farewell, sizeof farewell) <= 0) break;
  }
  ::close(other_end);
}

void Connection::connect(const Options& options, Deadline deadline) {
  std::vector<const char*> names;
  std::vector<const char*> values;
  const std::map<std::string, std::string> keywords = connection_keywords(options, deadline);
  for (const auto& [name, value] : keywords) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  connection_.reset(PQconnectdbParams(names.data(), values.data(), 0));
  if (!connection_) throw std::bad_alloc();
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    throw_not_connected(trimmed(PQerrorMessage(connection_.get())));
  }
  if (PQserverVersion(connection_.get()) < kOldestServer) {
    throw Error(ErrorCode::unsupported, "the PostgreSQL server is older than version 13");
  }
  const char* const encoding = PQparameterStatus(connection_.get(), "server_encoding");
  if (encoding == nullptr || std::string_view(encoding) != "UTF8") {
    throw Error(ErrorCode::unsupported,
                "the database cannot keep every text: create it with ENCODING 'UTF8'");
  }
}

void Connection::set_up(const Options& options, Deadline deadline) {
  PQsetNoticeReceiver(connection_.get(), &Connection::note_warning, this);
  enter_pipeline();
  if (pooling_ == Pooling::transaction) return;
  run_text(settings_sql(options, false), Exchange::changes_nothing, deadline);
}

void Connection::note_warning(void* self, const PGresult* result) {
  const std::string_view sqlstate = field(result, PG_DIAG_SQLSTATE);
  const std::string_view severity = field(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  auto& connection = *static_cast<Connection*>(self);
  // A commit whose wait for the synchronous standby was cancelled is announced like this and then
  // answered as if it had succeeded.
  if (severity == "WARNING" && (sqlstate == "01000" || sqlstate == "57P01")) {
    connection.commit_is_doubtful_ = true;
  }
  // The server says goodbye to a connection that asked nothing.
  if (severity == "FATAL" || severity == "PANIC") connection.is_broken_ = true;
}

Result Connection::run(const Statement& statement, const Parameters& parameters, Exchange exchange,
                       Deadline deadline) {
  const Command command{&statement, &parameters};
  return std::move(run_all({&command, 1}, exchange, deadline).front());
}

Result Connection::run_text(const std::string& sql, Exchange exchange, Deadline deadline) {
  const Statement statement{"", sql};
  return run(statement, Parameters(), exchange, deadline);
}

std::vector<Result> Connection::run_all(std::span<const Command> commands, Exchange exchange,
                                        Deadline deadline) {
  exchange_ = exchange;
  commit_is_doubtful_ = false;
  cancellation_.reset();
  if (is_borrowed()) {
    const int left_ms = std::max(milliseconds_until(deadline), 1);
    const Statement limit{"", fmt::format(fmt::runtime(kLimit), fmt::arg("ms", left_ms))};
    return run_framed(limit, commands, kNoLimit, deadline + kSilence);
  }
  const bool needs_settings = pooling_ == Pooling::transaction && is_idle();
  if (!needs_settings) {
    send(commands);
    return receive(commands, deadline);
  }
  // A session of its own cannot be had, so the settings go with each transaction.
  const bool is_begin = commands.front().statement == &kBeginTransaction;
  std::vector<Command> framed{{&kBeginTransaction, &kNoValues}, {&local_settings_, &kNoValues}};
  framed.insert(framed.end(), commands.begin() + (is_begin ? 1 : 0), commands.end());
  if (!is_begin) framed.push_back({&kCommitTransaction, &kNoValues});
  send(framed);
  std::vector<Result> results = receive(framed, deadline);
  if (!is_begin) results.pop_back();
  results.erase(results.begin() + 1);
  if (!is_begin) results.erase(results.begin());
  return results;
}

std::vector<Result> Connection::run_framed(const Statement& before,
                                           std::span<const Command> commands,
                                           const Statement& after, Deadline deadline) {
  std::vector<Command> framed{{&before, &kNoValues}};
  framed.insert(framed.end(), commands.begin(), commands.end());
  framed.push_back({&after, &kNoValues});
  send(framed);
  std::vector<Result> results = receive(framed, deadline);
  results.pop_back();
  results.erase(results.begin());
  return results;
}

void Connection::send(std::span<const Command> commands) {
  being_prepared_.clear();
  for (const Command& command : commands) queue(command);
  if (PQpipelineSync(connection_.get()) != 1) lose(trimmed(PQerrorMessage(connection_.get())));
}

void Connection::queue(const Command& command) {
  const Statement& statement = *command.statement;
  const bool prepares = !statement.name.empty() && pooling_ == Pooling::none;
  const auto is_same = [&](const std::string* name) { return name && *name == statement.name; };
  const bool is_new = prepares && !prepared_.contains(statement.name) &&
                      std::none_of(being_prepared_.begin(), being_prepared_.end(), is_same);
  PGconn* const connection = connection_.get();
  if (is_new &&
      PQsendPrepare(connection, statement.name.c_str(), statement.sql.c_str(), 0, nullptr) != 1) {
    lose(trimmed(PQerrorMessage(connection)));
  }
  being_prepared_.push_back(is_new ? &statement.name : nullptr);

  const auto values = command.parameters->values();
  std::vector<const char*> data;
  std::vector<int> lengths;
  const std::vector<int> formats(values.size(), 1);
  for (const std::optional<std::string>& value : values) {
    data.push_back(value ? value->data() : nullptr);
    lengths.push_back(value ? static_cast<int>(value->size()) : 0);
  }
  const int count = static_cast<int>(values.size());
  const int rows = static_cast<int>(command.rows);
  const int sent = prepares ? PQsendQueryPrepared(connection, statement.name.c_str(), count,
                                                  data.data(), lengths.data(), formats.data(), rows)
                            : PQsendQueryParams(connection, statement.sql.c_str(), count, nullptr,
                                                data.data(), lengths.data(), formats.data(), rows);
  if (sent != 1) lose(trimmed(PQerrorMessage(connection)));
}

std::vector<Result> Connection::receive(std::span<const Command> commands, Deadline deadline) {
  std::vector<Result> results;
  std::optional<Failure> failure;
  const auto take = [&](PGresult* raw) {
    Result result(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
      return std::optional<Result>(std::move(result));
    }
    if (status == PGRES_PIPELINE_ABORTED) return std::optional<Result>();
    const std::string_view severity = field(raw, PG_DIAG_SEVERITY_NONLOCALIZED);
    std::string text(field(raw, PG_DIAG_MESSAGE_PRIMARY));
    const std::string sqlstate(field(raw, PG_DIAG_SQLSTATE));
    if (sqlstate.empty() || severity != "ERROR") {
      lose(text.empty() ? trimmed(PQerrorMessage(connection_.get())) : text);
    }
    if (ends_connection(sqlstate)) is_broken_ = true;
    if (prevents_writes(sqlstate)) has_failed_to_write_ = true;
    if (!failure) failure = Failure{sqlstate, std::move(text)};
    return std::optional<Result>();
  };
  const auto finish_command = [&] {
    std::optional<Result> last;
    while (PGresult* raw = next_result(deadline)) last = take(raw);
    return last;
  };
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (being_prepared_[i] != nullptr && finish_command()) prepared_.insert(*being_prepared_[i]);
    if (std::optional<Result> result = finish_command()) results.push_back(std::move(*result));
  }
  // Behind the commands stands a mark. Commands that are a transaction by themselves are committed
  // there, after each of them was answered: what comes in its place is the failure of the commit.
  PGresult* mark = next_result(deadline);
  while (mark != nullptr && PQresultStatus(mark) != PGRES_PIPELINE_SYNC) {
    take(mark);
    mark = next_result(deadline);
    if (mark == nullptr) mark = next_result(deadline);
  }
  if (mark == nullptr) lose("the server did not answer every command");
  PQclear(mark);
  const bool was_cancelled = end_cancellation();
  if (failure && was_cancelled && failure->sqlstate == kCancelled) {
    throw CallScope::current().error();
  }
  if (failure) throw_sql_error(failure->sqlstate, failure->text);
  if (results.size() != commands.size()) lose("the server did not answer every command");
  if (exchange_ == Exchange::commits && commit_is_doubtful_) {
    throw Error(ErrorCode::outcome_unknown,
                "PostgreSQL committed without waiting for its synchronous standby");
  }
  return results;
}

pg_result* Connection::next_result(Deadline deadline) {
  while (PQisBusy(connection_.get()) == 1) wait_for_server(deadline);
  PGresult* const result = PQgetResult(connection_.get());
  if (result == nullptr && PQstatus(connection_.get()) != CONNECTION_OK) {
    lose(trimmed(PQerrorMessage(connection_.get())));
  }
  return result;
}

void Connection::wait_for_server(Deadline deadline) {
  const int unsent = PQflush(connection_.get());
  if (unsent < 0) lose(trimmed(PQerrorMessage(connection_.get())));
  const auto events = static_cast<short>(unsent == 1 ? POLLIN | POLLOUT : POLLIN);
  const CallOptions& limits = CallScope::current();
  if (!cancellation_ && limits.is_over()) cancellation_.emplace(connection_.get());
  const StopSignal stop(cancellation_ ? std::stop_token() : limits.stop);
  const Deadline until =
      std::min(deadline, cancellation_ ? cancellation_->deadline() : limits.deadline_or(deadline));
  std::array<pollfd, 2> waiting{
      pollfd{.fd = PQsocket(connection_.get()), .events = events, .revents = 0},
      pollfd{.fd = stop.descriptor(), .events = POLLIN, .revents = 0}};
  const int ready = poll(waiting.data(), waiting.size(), milliseconds_until(until));
  if (ready < 0 && errno == EINTR) return;
  if (ready == 0 && (cancellation_ || until == deadline)) give_up();
  const pollfd& server = waiting.front();
  if ((server.revents & ~POLLOUT) != 0 && PQconsumeInput(connection_.get()) != 1) {
    lose(trimmed(PQerrorMessage(connection_.get())));
  }
}

void Connection::give_up() {
  is_broken_ = true;
  if (exchange_ == Exchange::commits) lose("no answer within the call's time");
  if (cancellation_) throw CallScope::current().error();
  throw Error(ErrorCode::timeout, "PostgreSQL did not answer in time; raise call_timeout");
}

// A request that is still on its way would cancel what comes next.
bool Connection::end_cancellation() {
  if (!cancellation_) return false;
  if (!cancellation_->has_arrived(cancellation_->deadline())) is_broken_ = true;
  return true;
}

void Connection::lose(const std::string& why) {
  is_broken_ = true;
  if (exchange_ == Exchange::commits) {
    throw Error(ErrorCode::outcome_unknown,
                fmt::format("the connection to PostgreSQL was lost while committing: {}", why));
  }
  throw Error(ErrorCode::unavailable,
              fmt::format("the connection to PostgreSQL was lost: {}", why));
}

bool Connection::is_alive() {
  pollfd server{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
  // The server speaks unasked only to say goodbye, or that a setting has changed. What follows its
  // last words is read too: that it has hung up.
  while (!is_broken_ && poll(&server, 1, 0) != 0) {
    if (PQconsumeInput(connection_.get()) != 1 || PQisBusy(connection_.get()) != 0) return false;
  }
  return !is_broken_ && PQstatus(connection_.get()) == CONNECTION_OK && is_idle();
}

bool Connection::is_idle() const { return PQtransactionStatus(connection_.get()) == PQTRANS_IDLE; }

std::vector<std::string> Connection::wait_for_announcements(int wake_fd, Deadline deadline) {
  exchange_ = Exchange::changes_nothing;
  std::array<pollfd, 2> waiting{
      pollfd{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0},
      pollfd{.fd = wake_fd, .events = POLLIN, .revents = 0}};
  const int ready = poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
  if (ready > 0 && waiting[0].revents != 0 && PQconsumeInput(connection_.get()) != 1) {
    lose(trimmed(PQerrorMessage(connection_.get())));
  }
  std::vector<std::string> texts;
  while (PGnotify* raw = PQnotifies(connection_.get())) {
    const std::unique_ptr<PGnotify, decltype(&PQfreemem)> announcement(raw, &PQfreemem);
    texts.emplace_back(fmt::format("{} {}", announcement->relname, announcement->extra));
  }
  return texts;
}

std::string server_of(const std::string& connection) {
  using Parsed = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;
  const Parsed given(PQconninfoParse(connection.c_str(), nullptr), &PQconninfoFree);
  if (!given) throw_unreadable();
  const Parsed defaults(PQconndefaults(), &PQconninfoFree);
  const auto value_of = [&](std::string_view keyword) -> std::string {
    for (const Parsed* const from : {&given, &defaults}) {
      for (const PQconninfoOption* option = from->get();
           option != nullptr && option->keyword != nullptr; ++option) {
        if (option->keyword == keyword && option->val != nullptr) return option->val;
      }
    }
    return {};
  };
  std::string hosts = value_of("host");
  if (hosts.empty()) hosts = value_of("hostaddr");
  return fmt::format("{} port {}", hosts, value_of("port"));
}

}  // namespace oncebox::postgresql
