# Installs gems and their dependencies into GEM_HOME. Arguments: NAME[,REQUIREMENT]...
require "rubygems"
require "rubygems/dependency_installer"
require "fileutils"

# The gem would run code of its own while it is installed.
class NeedsBuild < StandardError; end

def fail_with(kind, text)
  warn "sandbox-gem: #{kind}"
  warn "error: #{text.to_s.lines.map(&:strip).reject(&:empty?).join("; ")}"
  exit! 1
end

# No file of the platform adds to the settings.
Gem.configuration = Gem::ConfigFile.new(["--norc"])

Gem.pre_install do |installer|
  name = installer.spec.full_name
  raise NeedsBuild, "#{name} has a native extension" unless installer.spec.extensions.empty?
  # gem itself would load such a file.
  plugin = installer.package.contents.any? { |path| File.basename(path).start_with?("rubygems_plugin") }
  raise NeedsBuild, "#{name} has a plugin of gem" if plugin
  true
end

set = nil
begin
  Gem.sources = ENV.fetch("SANDBOX_GEM_SOURCES", "https://rubygems.org/").split
  dependencies = ARGV.map do |argument|
    name, *requirements = argument.split(",")
    Gem::Dependency.new(name, requirements.empty? ? Gem::Requirement.default : requirements)
  end
  set = Gem::Resolver::InstallerSet.new(:remote)
  requests = Gem::RequestSet.new(*dependencies)
  requests.prerelease = dependencies.any?(&:prerelease?)
  set.prerelease = requests.prerelease
  dependencies.each { |dependency| set.add_always_install(dependency) }
  requests.always_install = set.always_install
  requests.remote = true
  requests.resolve(set)
  requests.install(
    wrappers: true, env_shebang: true, document: [], user_install: false,
    dir_mode: 0o755, data_mode: 0o644, prog_mode: 0o755
  )
  # Copies of the archives.
  FileUtils.rm_rf(File.join(Gem.dir, "cache"))
rescue NeedsBuild => error
  fail_with "needs-build", error.message
rescue Gem::UnsatisfiableDependencyError => error
  problems = set.errors.grep(Gem::SourceFetchProblem)
  fail_with "not-found", error.message if problems.empty?
  fail_with "unreachable", problems.map { |problem| problem.error.message }.uniq.join("; ")
rescue Gem::RuntimeRequirementNotMetError => error
  fail_with "not-found", error.message
rescue Gem::DependencyResolutionError, Gem::ImpossibleDependenciesError => error
  fail_with "conflict", error.message
rescue Gem::RemoteFetcher::FetchError, SocketError => error
  fail_with "unreachable", error.message
rescue Gem::Exception, SystemCallError, StandardError => error
  fail_with "failed", "#{error.class}: #{error.message}"
end
