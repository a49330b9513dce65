# Makes the files of a registry of gem in a folder.
require "rubygems/package"
require "digest"
require "fileutils"
require "zlib"

FOLDER = ARGV.fetch(0)
%w[gems info quick/Marshal.4.8 work].each { |name| FileUtils.mkdir_p(File.join(FOLDER, name)) }

def package(name, version, dependencies: [], extra: {}, extensions: [])
  files = {
    "lib/#{name}.rb" => "module #{name.capitalize}; VERSION = '#{version}'; end\n",
    "exe/#{name}" => "require '#{name}'\nputs 'ran #{version}'\n"
  }.merge(extra)
  spec = Gem::Specification.new do |s|
    s.name, s.version, s.summary, s.authors = name, version, "a test", ["a test"]
    s.homepage, s.license = "https://example.org", "MIT"
    s.files, s.bindir, s.executables, s.extensions = files.keys, "exe", [name], extensions
    dependencies.each { |dependency| s.add_dependency(dependency) }
  end
  Dir.chdir(File.join(FOLDER, "work")) do
    files.each do |path, content|
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, content)
      File.chmod(path.start_with?("exe/") ? 0o755 : 0o600, path)
    end
    Gem::DefaultUserInteraction.use_ui(Gem::SilentUI.new) { Gem::Package.build(spec, true) }
  end
  file = "#{name}-#{version}"
  FileUtils.mv(File.join(FOLDER, "work", "#{file}.gem"), File.join(FOLDER, "gems"))
  digest = Digest::SHA256.file(File.join(FOLDER, "gems", "#{file}.gem")).hexdigest
  needed = dependencies.map { |dependency| "#{dependency}:>= 0" }.join(",")
  info = File.join(FOLDER, "info", name)
  File.write(info, "---\n") unless File.exist?(info)
  File.write(info, "#{version} #{needed}|checksum:#{digest}\n", mode: "a")
  File.binwrite(File.join(FOLDER, "quick/Marshal.4.8/#{file}.gemspec.rz"), Zlib.deflate(Marshal.dump(spec)))
end

package "demo", "1.0.0"
package "demo", "2.0.0"
package "needs", "1.0.0", dependencies: %w[demo json]
# Newer than Ruby's own, and not to be installed for that.
package "json", "99.0.0", extensions: ["ext/extconf.rb"], extra: { "ext/extconf.rb" => "File.write('ran', '')\n" }
package "native", "1.0.0", extensions: ["ext/extconf.rb"], extra: { "ext/extconf.rb" => "File.write('ran', '')\n" }
package "plugin", "1.0.0", extra: { "lib/rubygems_plugin.rb" => "File.write('ran', '')\n" }
FileUtils.rm_rf(File.join(FOLDER, "work"))
%w[specs latest_specs prerelease_specs].each do |name|
  File.binwrite(File.join(FOLDER, "#{name}.4.8.gz"), Zlib.gzip(Marshal.dump([])))
end
File.write(File.join(FOLDER, "versions"), "created_at: 2024-01-01T00:00:00Z\n---\n")
