# The guest's root executes this, from the second disk, on the serial console. Each step says one line:
#   GUEST WHO/STEP ok|failed
# $WHO and the arguments of the suite are in `settings`, beside this.
. /media/settings
mkdir -m 1777 /tmp/results
for who in $WHO; do
    case $who in
        root) bash /media/checks.sh root ;;
        # As after a login: in a session's scope, which is root's.
        user) systemd-run -q --pipe --wait --collect -p User=tester -p PAMName=login bash /media/checks.sh user ;;
        # As started by the user's own systemd: a desktop's terminal, a service.
        service) systemd-run -q --pipe --wait --collect -p User=tester -p PAMName=login \
            systemd-run --user -q --pipe --wait --collect bash /media/checks.sh service ;;
        # A user whom no systemd serves.
        no-systemd) systemd-run -q --pipe --wait --collect -p User=no-systemd bash /media/checks.sh no-systemd ;;
    esac
done
tar -C /tmp/results -cf /dev/vdc .
sync
echo "GUEST end ok"
